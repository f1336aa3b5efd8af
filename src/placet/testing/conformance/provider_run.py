"""Tries the laws of a provider one after the other, within a cost, and leaves nothing behind. No test framework."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from placet.domain.allocations import Launch
from placet.domain.errors import ProviderError
from placet.domain.offers import Offer
from placet.ports.provider import Provider
from placet.stages.billing import charge
from placet.testing.conformance.provider_bench import Listener
from placet.testing.conformance.provider_configured import ConfiguredBench
from placet.testing.conformance.provider_faults import LAWS
from placet.testing.conformance.provider_law import Law, NotApplicable, trial_on
from placet.testing.conformance.waiting import eventually

LAW_LIMIT_S = 120.0
CLEAN_LIMIT_S = 60.0


class CannotTry(Exception):
    """No law could be tried on the provider; the message says why."""


class Verdict(StrEnum):
    """What came of one law."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_APPLICABLE = "not_applicable"
    NOT_TRIED = "not_tried"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One law and what came of it; ``cost_usd`` is the most that it can have cost."""

    law: str
    says: str
    verdict: Verdict
    why: str = ""
    took_s: float = 0.0
    cost_usd: Decimal = Decimal(0)


def named(pattern: Callable[[str], bool]) -> tuple[Law, ...]:
    """The laws whose name fits."""
    return tuple(law for law in LAWS if pattern(law.name))


async def examine(bench: ConfiguredBench, laws: Sequence[Law], most_usd: Decimal) -> AsyncIterator[Outcome]:
    """Try each law, as long as all that it may cost is within what is left. The bench has been prepared."""
    spent = Decimal(0)
    for law in laws:
        worst = law.launches * cost_usd(bench.offer, LAW_LIMIT_S + CLEAN_LIMIT_S)
        if spent + worst > most_usd:
            why = f"it may cost {worst:.4f} USD, and {max(most_usd - spent, Decimal(0)):.4f} are left"
            yield Outcome(law=law.name, says=law.says, verdict=Verdict.NOT_TRIED, why=why)
            continue
        outcome = await _tried(bench, law)
        spent += outcome.cost_usd
        yield outcome


def cost_usd(offer: Offer, held_s: float) -> Decimal:
    """What one allocation costs that is held so long."""
    return charge(
        offer.price_usd_per_hour,
        Decimal(str(held_s)),
        quantum_s=offer.billing_quantum_s,
        least=offer.minimum_charge_usd,
    )


async def left(bench: ConfiguredBench) -> tuple[str, ...]:
    """The keys of what is still there of this run, after one more try to delete it."""
    provider = await bench.connect(Listener(None))
    try:
        keys = [handle.key async for handle in provider.owned(bench.deployment)]
        for key in keys:
            await _cleaned(provider, key)
        return tuple([handle.key async for handle in provider.owned(bench.deployment)])
    finally:
        await provider.close()


async def _tried(bench: ConfiguredBench, law: Law) -> Outcome:
    begun_s = time.monotonic()
    verdict, why = Verdict.KEPT, ""
    launched: list[Launch] = []
    try:
        async with asyncio.timeout(LAW_LIMIT_S), trial_on(bench) as trial:
            launched = trial.launched
            await law.holds(trial)
    except NotApplicable as reason:
        verdict, why = Verdict.NOT_APPLICABLE, str(reason)
    except TimeoutError:
        verdict, why = Verdict.BROKEN, f"it was not over within {LAW_LIMIT_S:g} s"
    except AssertionError as broken:
        verdict, why = Verdict.BROKEN, str(broken)
    except Exception as error:  # noqa: BLE001 - an adapter under test may raise anything, and that is a finding
        verdict, why = Verdict.BROKEN, f"{type(error).__name__}: {error}"
    remains = await _clean(bench, launched)
    if remains:
        verdict, why = Verdict.BROKEN, "; ".join([*([why] if why else []), f"left behind: {', '.join(remains)}"])
    took_s = time.monotonic() - begun_s
    made = min(len(launched), law.launches)
    return Outcome(
        law=law.name,
        says=law.says,
        verdict=verdict,
        why=why,
        took_s=took_s,
        cost_usd=made * cost_usd(bench.offer, took_s),
    )


async def _clean(bench: ConfiguredBench, launched: Sequence[Launch]) -> list[str]:
    """Delete what a law made; the keys of what could not be deleted."""
    if not launched:
        return []
    remains = []
    try:
        provider = await bench.connect(Listener(None))
    except ProviderError:
        return [launch.key for launch in launched]
    try:
        for launch in launched:
            if not await _cleaned(provider, launch.key):
                remains.append(launch.key)
    finally:
        await provider.close()
    return remains


async def _cleaned(provider: Provider, key: str) -> bool:
    async def gone() -> bool:
        try:
            found = await provider.find(key)
            for handle in found:
                await provider.cancel(handle, 0.0)
                await provider.release(handle)
            return not found or not await provider.find(key)
        except ProviderError:
            return False  # it cannot be stopped now, or is not heard; the wait is bounded

    try:
        return await eventually(gone, CLEAN_LIMIT_S, "proof")
    except AssertionError:
        return False


async def run(
    bench: ConfiguredBench, laws: Sequence[Law], most_usd: Decimal, tell: Callable[[Outcome], None]
) -> tuple[list[Outcome], tuple[str, ...]]:
    """All of it: the outcomes, each told as it comes, and what is left at the provider in the end.

    Raises:
        CannotTry: it cannot be reached, or offers nothing to run a program on.
    """
    try:
        await bench.prepare()
    except (ProviderError, LookupError) as error:
        raise CannotTry(str(error)) from error
    outcomes: list[Outcome] = []
    try:
        async for outcome in examine(bench, laws, most_usd):
            outcomes.append(outcome)
            tell(outcome)
    finally:
        remains = await asyncio.shield(left(bench))
    return outcomes, remains
