"""Where the money went: per attempt what was set aside, spent, useful, wasted and why, and charged after the end.

Every amount is an exact decimal: ``spent`` is the sum of useful, overhead, wasted and running, to the last digit.
An orphan of an attempt is part of what the attempt cost, whatever had been concluded of it before it was found.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from placet.domain.orphans import Orphan, OrphanReason
from placet.domain.records import Attempt, Workload
from placet.domain.states import AttemptState
from placet.stages.billing import MICRO, begun_ms, charge_usd

NOTHING = Decimal(0)
NO_CAUSE = "its workload went on without it"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One attempt. ``reserved_usd`` is the most that it was taken to cost when it was begun.

    ``after_stop_usd`` is what of the waste was charged after its program had ended, until its allocation was gone.
    ``orphan_usd`` is what of that was charged for an allocation that was found when no attempt stood for it any more.
    ``running_usd`` is what an attempt that is not over has cost so far. ``at_most``: nobody knows when it ended.
    ``open``: it may go on costing. ``simulated``: it was not real, and is not added up.
    """

    workload_id: str
    epoch: int
    provider: str
    offer_id: str
    reserved_usd: Decimal
    useful_usd: Decimal = NOTHING
    overhead_usd: Decimal = NOTHING
    wasted_usd: Decimal = NOTHING
    running_usd: Decimal = NOTHING
    reason: str = ""
    after_stop_usd: Decimal = NOTHING
    orphan_usd: Decimal = NOTHING
    at_most: bool = False
    open: bool = False
    simulated: bool = False

    @property
    def spent_usd(self) -> Decimal:
        return self.useful_usd + self.overhead_usd + self.wasted_usd + self.running_usd


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Entries added up; ``wasted`` by reason, the greatest first."""

    reserved_usd: Decimal
    spent_usd: Decimal
    useful_usd: Decimal
    overhead_usd: Decimal
    wasted_usd: Decimal
    running_usd: Decimal
    after_stop_usd: Decimal
    wasted: tuple[tuple[str, Decimal], ...]
    at_most: bool


def entries(
    workload: Workload, attempts: Sequence[Attempt], now_ms: int, orphans: Sequence[Orphan] = ()
) -> tuple[Entry, ...]:
    """One for each attempt, in their order, with what the orphans of it have cost; those of others are left alone."""
    return tuple(_with_orphans(_entry(workload, attempt, now_ms), attempt, orphans, now_ms) for attempt in attempts)


def spent_so_far_usd(attempt: Attempt, now_ms: int) -> Decimal:
    """What it has cost; of one that is not over, until now. What may not exist costs nothing before that is known."""
    if attempt.final or not _may_cost(attempt):
        return attempt.cost_usd
    return charge_usd(attempt, now_ms - begun_ms(attempt))


def _with_orphans(entry: Entry, attempt: Attempt, orphans: Sequence[Orphan], now_ms: int) -> Entry:
    mine = [one for one in orphans if one.handle.key == attempt.key and one.reason in _OF_ATTEMPTS]
    if not mine:
        return entry
    more = sum((_more_usd(one, attempt, now_ms) for one in mine), NOTHING)
    is_open = any(one.open for one in mine)
    return replace(
        entry,
        wasted_usd=entry.wasted_usd + more,
        after_stop_usd=entry.after_stop_usd + more,
        orphan_usd=more,
        reason=entry.reason or (_reason(attempt) if more and not entry.useful_usd else ""),
        at_most=entry.at_most or is_open,
        open=entry.open or is_open,
    )


_OF_ATTEMPTS = (OrphanReason.OVER, OrphanReason.TWIN)


def _more_usd(orphan: Orphan, attempt: Attempt, now_ms: int) -> Decimal:
    """What it cost beside what the attempt was charged: one that is open until now, one that is gone until then."""
    until_ms = now_ms if orphan.closed_ms is None else orphan.closed_ms
    charged = charge_usd(replace(attempt, handle=orphan.handle), until_ms - orphan.handle.created_ms)
    known = attempt.handle
    itself = known is None or known.native_id == orphan.handle.native_id
    return max(charged - attempt.cost_usd, NOTHING) if itself else charged


def _entry(workload: Workload, attempt: Attempt, now_ms: int) -> Entry:
    useful = overhead = wasted = running = after_stop = NOTHING
    spent = attempt.cost_usd
    if not attempt.final:
        running = spent_so_far_usd(attempt, now_ms)
    elif attempt.computed and attempt.epoch == workload.epoch:
        wasted = after_stop = attempt.wasted_usd  # an attempt that computed wastes nothing else
        useful = ((spent - wasted) * _running_share(attempt)).quantize(MICRO)
        overhead = spent - wasted - useful
    else:
        wasted = spent
        if attempt.exited_ms is not None:
            after_stop = max(spent - charge_usd(attempt, attempt.exited_ms - begun_ms(attempt)), NOTHING)
    return Entry(
        workload_id=attempt.workload_id,
        epoch=attempt.epoch,
        provider=attempt.provider,
        offer_id=attempt.placement.offer_id,
        reserved_usd=attempt.placement.reserved_usd,
        useful_usd=useful,
        overhead_usd=overhead,
        wasted_usd=wasted,
        running_usd=running,
        reason=_reason(attempt) if wasted and not useful else "",
        after_stop_usd=after_stop,
        at_most=attempt.cost_at_most,
        open=attempt.state is not AttemptState.REFUSED and attempt.released_ms is None,
        simulated=attempt.placement.simulated,
    )


def _may_cost(attempt: Attempt) -> bool:
    """Was it seen, so that it certainly costs? What may not exist is not counted before that is known."""
    return attempt.handle is not None or attempt.permit_ms is not None


def _reason(attempt: Attempt) -> str:
    return str(attempt.failure.cause) if attempt.failure is not None else NO_CAUSE


def _running_share(attempt: Attempt) -> Decimal:
    begun, started, exited = attempt.submitted_ms, attempt.started_ms, attempt.exited_ms
    if begun is None or started is None or exited is None or exited <= begun:
        return Decimal(1)
    return Decimal(max(exited - started, 0)) / Decimal(exited - begun)


def add_up(found: Iterable[Entry]) -> Sums:
    """All of them that are real together; if all are simulated, those."""
    every = tuple(found)
    held = tuple(entry for entry in every if not entry.simulated) or every
    wasted: dict[str, Decimal] = {}
    for entry in held:
        if entry.wasted_usd:
            reason = entry.reason or "after its end"
            wasted[reason] = wasted.get(reason, NOTHING) + entry.wasted_usd
    return Sums(
        reserved_usd=sum((entry.reserved_usd for entry in held), NOTHING),
        spent_usd=sum((entry.spent_usd for entry in held), NOTHING),
        useful_usd=sum((entry.useful_usd for entry in held), NOTHING),
        overhead_usd=sum((entry.overhead_usd for entry in held), NOTHING),
        wasted_usd=sum((entry.wasted_usd for entry in held), NOTHING),
        running_usd=sum((entry.running_usd for entry in held), NOTHING),
        after_stop_usd=sum((entry.after_stop_usd for entry in held), NOTHING),
        wasted=tuple(sorted(wasted.items(), key=lambda pair: (-pair[1], pair[0]))),
        at_most=any(entry.at_most for entry in held),
    )
