"""The laws of a provider catch what they are about: for each, an adapter that breaks it and nothing else on purpose."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.simulated import SimulatedOptions, SimulatedProvider
from placet.adapters.providers.simulated.behaviour import Machine
from placet.adapters.providers.simulated.offers import Row
from placet.domain.allocations import ContractCard, FoundOutput, Handle, Launch, LogChunk, Observation, Phase
from placet.domain.errors import InvalidRequest, NoCapacity, OutcomeUnknown, ProviderError, RateLimited, Unavailable
from placet.domain.failures import Cause
from placet.domain.offers import Offer
from placet.ports.provider import Hints
from placet.testing.conformance import provider_run
from placet.testing.conformance.provider_configured import ConfiguredBench
from placet.testing.conformance.provider_faults import LAWS
from placet.testing.conformance.provider_run import Outcome, Verdict, named, run

BROKEN: dict[str, type[SimulatedProvider]] = {}


def breaks(*laws: str) -> Callable[[type[SimulatedProvider]], type[SimulatedProvider]]:
    def noted(made: type[SimulatedProvider]) -> type[SimulatedProvider]:
        BROKEN.update(dict.fromkeys(laws, made))
        return made

    return noted


class Changing(SimulatedProvider):
    """What it observes goes through ``changed``."""

    def changed(self, seen: Observation) -> Observation:
        return seen

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        return [self.changed(each) for each in await super().observe(handles)]


@breaks("one-key-one-thing")
class AlwaysAnew(SimulatedProvider):
    number = 0

    async def submit(self, launch: Launch) -> Handle:
        self.number += 1
        return await super().submit(replace(launch, key=f"{launch.key}-{self.number}"))


@breaks("a-name-of-another-is-refused")
class AdoptsStrangers(SimulatedProvider):
    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except InvalidRequest:
            return (await self.find(launch.key))[0]


@breaks("a-stop-of-what-never-started", "a-released-key-never-starts-again")
class ForgetsNames(SimulatedProvider):
    async def cancel(self, handle: Handle, grace_s: float) -> None:
        if await self.find(handle.key):
            await super().cancel(handle, grace_s)

    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except InvalidRequest:
            return Handle(provider=self.name, key=launch.key, native_id="again", created_ms=0)


@breaks("a-server-error-after-the-effect", "a-lost-reply-is-found-out", "a-lost-request-leaves-nothing")
class SureOfFailure(SimulatedProvider):
    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from error


@breaks("an-empty-handle-is-none")
class EmptyHandles(SimulatedProvider):
    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except OutcomeUnknown:
            return Handle(provider=self.name, key=launch.key, native_id="", created_ms=0)


@breaks("a-late-create-lands-within-the-card")
class Impatient(SimulatedProvider):
    async def find(self, key: str) -> Sequence[Handle]:
        return []


@breaks("a-lost-page-is-an-error")
class ShortLists(SimulatedProvider):
    async def _listed(self, *, deployment: str | None = None, name: str | None = None) -> AsyncIterator[Machine]:
        for machine in self._cloud.page("", deployment, name).machines:
            yield machine


@breaks("an-unknown-state-is-unknown", "early-absence-is-no-end", "a-lost-host-is-gone")
class Certain(Changing):
    def changed(self, seen: Observation) -> Observation:
        if seen.phase in (Phase.UNKNOWN, Phase.GONE):
            return replace(seen, phase=Phase.ENDED, cause=Cause.EXIT_CODE, exit_code=1)
        return seen


@breaks("a-preemption-is-told")
class Inventive(Changing):
    def changed(self, seen: Observation) -> Observation:
        return replace(seen, cause=Cause.KILLED, exit_code=137) if seen.cause is Cause.PREEMPTED else seen


@breaks("a-program-that-cannot-begin")
class ShellLike(Changing):
    def changed(self, seen: Observation) -> Observation:
        return replace(seen, cause=Cause.EXIT_CODE, exit_code=127) if seen.cause is Cause.START_FAILED else seen


@breaks("observations-are-in-our-words")
class OutOfOrder(SimulatedProvider):
    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        return list(reversed(await super().observe(handles)))


@breaks("a-final-observation-stays")
class NeverTheSame(Changing):
    def changed(self, seen: Observation) -> Observation:
        return replace(seen, ended_ms=seen.observed_ms) if seen.phase is Phase.ENDED else seen


@breaks("a-restart-is-told-apart")
class OneIncarnation(Changing):
    def changed(self, seen: Observation) -> Observation:
        return replace(seen, incarnation="1")


@breaks("a-clock-that-is-ahead", "a-clock-that-is-behind")
class ItsOwnClock(Changing):
    def changed(self, seen: Observation) -> Observation:
        return replace(seen, started_ms=(seen.started_ms or 0) + 600_000, ended_ms=(seen.ended_ms or 0) + 600_000)


@breaks("an-ignored-stop-is-not-believed")
class Trusting(Changing):
    asked = False

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        self.asked = True
        await super().cancel(handle, grace_s)

    def changed(self, seen: Observation) -> Observation:
        return replace(seen, phase=Phase.ENDED, cause=Cause.STOPPED) if self.asked else seen


@breaks("a-refused-stop-is-told")
class Polite(SimulatedProvider):
    async def cancel(self, handle: Handle, grace_s: float) -> None:
        try:
            await super().cancel(handle, grace_s)
        except ProviderError:
            return


@breaks("too-many-requests-with-a-hint")
class Hintless(SimulatedProvider):
    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except RateLimited as error:
            raise RateLimited(str(error)) from error


@breaks("too-many-requests-without-a-hint", "no-quota-is-told-as-such", "refusals-have-their-kind")
class AllIsCapacity(SimulatedProvider):
    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except OutcomeUnknown:
            raise
        except ProviderError as error:
            raise NoCapacity(str(error)) from error


@breaks("no-capacity-is-told-as-such")
class AllIsQuota(SimulatedProvider):
    async def submit(self, launch: Launch) -> Handle:
        try:
            return await super().submit(launch)
        except NoCapacity as error:
            raise InvalidRequest(str(error)) from error


@breaks("logs-neither-lose-nor-repeat")
class FromTheStart(SimulatedProvider):
    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        async for chunk in super().logs(handle, stream, 0):
            yield chunk


@breaks("lost-log-bytes-are-marked")
class QuietLoss(SimulatedProvider):
    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        async for chunk in super().logs(handle, stream, offset):
            yield replace(chunk, dropped=0)


@breaks("no-price-of-zero")
class Generous(SimulatedProvider):
    def offers(self) -> Sequence[Offer]:
        first, *more = super().offers()
        return [*more, replace(first, price_usd_per_hour=Decimal(0))]


@breaks("what-runs-is-missing-from-what-is-free")
class AlwaysFree(SimulatedProvider):
    def offers(self) -> Sequence[Offer]:
        return [replace(each, free=replace(each.free, slots=9)) for each in super().offers()]


@breaks("offers-carry-what-a-choice-needs")
class PassesForReal(SimulatedProvider):
    def offers(self) -> Sequence[Offer]:
        return [replace(each, simulated=False) for each in super().offers()]


@breaks("another-price-is-told")
class ListPrices(SimulatedProvider):
    async def find(self, key: str) -> Sequence[Handle]:
        return [replace(each, price_usd_per_hour=None) for each in await super().find(key)]


@breaks("nothing-is-left-after-the-release")
class Keeps(SimulatedProvider):
    async def release(self, handle: Handle) -> bool:
        return True


@breaks("calls-end-in-time")
class Uncancellable(SimulatedProvider):
    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        looking = asyncio.ensure_future(super().observe(handles))
        while not looking.done():
            try:
                await asyncio.shield(looking)
            except asyncio.CancelledError:
                continue
        return looking.result()


@breaks("the-card-is-filled-in")
class BlankCard(SimulatedProvider):
    @property
    def card(self) -> ContractCard:
        return replace(super().card, states=())


@breaks("a-refused-permit-means-that-nothing-ran")
class Deaf(SimulatedProvider):
    async def answer_permit(self, request: object, granted: bool, reason: str) -> None:
        await super().answer_permit(request, True, reason)  # type: ignore[arg-type]  # it is passed on as it came


@breaks("a-key-that-never-was-is-not-found")
class FindsAnything(SimulatedProvider):
    async def find(self, key: str) -> Sequence[Handle]:
        return await super().find(key) or [Handle(provider=self.name, key=key, native_id="x", created_ms=0)]


@breaks("a-stop-may-be-repeated")
class StopsOnce(SimulatedProvider):
    async def cancel(self, handle: Handle, grace_s: float) -> None:
        if (await self._observe(handle.key)).phase is Phase.ENDED:
            raise InvalidRequest("it is over")
        await super().cancel(handle, grace_s)


@breaks("a-stop-right-after-the-submit")
class StopsWhatRuns(SimulatedProvider):
    async def cancel(self, handle: Handle, grace_s: float) -> None:
        if (await self._observe(handle.key)).phase is Phase.RUNNING:
            await super().cancel(handle, grace_s)


@breaks("a-permit-that-nobody-answers-is-asked-for-again")
class AsksTheFirstOnly(SimulatedProvider):
    opened = 0

    async def open(self, hints: Hints) -> None:
        AsksTheFirstOnly.opened += 1
        deaf = AsksTheFirstOnly.opened > 3  # one to prepare, the trial's own, and the silent one before it
        await super().open(replace(hints, permit_wanted=lambda _: None) if deaf else hints)


@breaks("find-tells-the-truth-after-a-cut")
class ForgetsAtTheCut(SimulatedProvider):
    opened = 0

    async def open(self, hints: Hints) -> None:
        ForgetsAtTheCut.opened += 1
        self._forgets = ForgetsAtTheCut.opened > 2
        await super().open(hints)

    async def find(self, key: str) -> Sequence[Handle]:
        return [] if self._forgets else await super().find(key)


@breaks("logs-of-what-is-not-there")
class LogsOrElse(SimulatedProvider):
    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        if not await self.find(handle.key):
            raise KeyError(handle.key)
        async for chunk in super().logs(handle, stream, offset):
            yield chunk


@breaks("outputs-are-what-was-announced")
class OtherBytes(SimulatedProvider):
    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        async for piece in super().read_output(handle, found, 0):
            yield piece


# It is about our own table of causes, which no adapter can break.
UNBROKEN = {"every-cause-has-a-meaning"}


def bench_of(kind: type[SimulatedProvider], folder: Path, **options: object) -> ConfiguredBench:
    # A late create and a late list take a second each; the laws wait for no longer than the card says, and a bit.
    told = SimulatedOptions(folder=folder, promised_late_create_s=1.1, promised_visibility_s=1.1, **options)  # type: ignore[arg-type]  # the fields, by name
    return ConfiguredBench(lambda: kind(told, SystemClock()), "kit")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broken adapter never does is not waited for as long as what a slow one does late."""
    monkeypatch.setattr(provider_run, "CLEAN_LIMIT_S", 0.5)
    monkeypatch.setattr(provider_run, "LAW_LIMIT_S", 5.0)


async def outcomes(bench: ConfiguredBench, law: str, most: str = "1000") -> tuple[list[Outcome], tuple[str, ...]]:
    told: list[Outcome] = []
    found, remains = await run(bench, named(lambda name: name == law), Decimal(most), told.append)
    assert told == found
    return found, remains


def test_every_law_is_broken_by_something() -> None:
    assert {law.name for law in LAWS} == set(BROKEN) | UNBROKEN
    assert not set(BROKEN) & UNBROKEN


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("law", BROKEN)
async def test_the_law_catches_who_breaks_it(law: str, tmp_path: Path) -> None:
    [good], remains = await outcomes(bench_of(SimulatedProvider, tmp_path / "good"), law)
    assert (good.verdict, good.why, remains) == (Verdict.KEPT, "", ())
    [bad], _ = await outcomes(bench_of(BROKEN[law], tmp_path / "bad"), law)
    assert bad.verdict is Verdict.BROKEN
    assert bad.why


@pytest.mark.usefixtures("hasty")
async def test_what_cannot_be_deleted_is_told(tmp_path: Path) -> None:
    [outcome], remains = await outcomes(bench_of(Keeps, tmp_path / "c"), "a-final-observation-stays")
    assert outcome.verdict is Verdict.BROKEN
    assert outcome.why == "left behind: kit-law-5"
    assert remains == ("kit-law-5",)


async def test_what_may_cost_too_much_is_not_tried(tmp_path: Path) -> None:
    dear = Row(id="dear", region="simulated-eu", cpu_cores=8, memory_gb=32, price="100", machines=4, quantum_s=3600)
    bench = bench_of(SimulatedProvider, tmp_path / "c", rows=(dear,))
    [outcome], remains = await outcomes(bench, "a-final-observation-stays", "99.99")
    assert (outcome.verdict, outcome.cost_usd, remains) == (Verdict.NOT_TRIED, Decimal(0), ())
    assert outcome.why == "it may cost 100.0000 USD, and 99.9900 are left"
    assert bench._probe._cloud.known() == []
    found, _ = await run(bench, named(lambda name: name.startswith("logs-")), Decimal(100), lambda _: None)
    assert [(each.law, each.verdict) for each in found] == [
        ("logs-neither-lose-nor-repeat", Verdict.KEPT),
        ("logs-of-what-is-not-there", Verdict.KEPT),
    ]
    assert found[0].cost_usd == 100
