"""One policy in one world: every workload of the world from its arrival to its success or the end of its attempts.

A policy sees what the engine sees: which offer was taken, whether it started, how long that took, how long it ran and
whether it was taken away - when that has happened, and not before.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.rentals.world import CHANCES, HOUR_S, REFUSAL_S, Workload, World
from placet.domain.experience import Evidence

ATTEMPTS_MAX = 10
REFUSALS_MAX = 200
CHECKPOINT_S = 900.0
# After so many refusals in a row everybody waits; without, an instant retry would be for free.
PATIENCE, WAIT_S = 8, 600.0


@dataclass(kw_only=True)
class Progress:
    """Where one workload stands; ``failed_on`` are the offers that failed it, the last one last. ``launch_from`` is how
    many of these had failed when something that ran was lost for the last time."""

    workload: Workload
    left_s: float
    usd: float = 0.0
    attempts: int = 0
    refusals: int = 0
    refused_in_a_row: int = 0
    finished_s: float | None = None
    expected_usd: float | None = None
    failed_on: list[int] = field(default_factory=list)
    launch_from: int = 0
    tried: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one attempt went."""

    at_s: float
    usd: float
    refused: bool = False
    started: bool = False
    startup_s: float | None = None
    ran_s: float = 0.0
    left_s: float = 0.0
    taken_away: bool = False


class Policy(Protocol):
    """Whoever chooses: the number of an offer, for a workload at a time, and learns from what came of choices."""

    def choose(self, progress: Progress, now_s: float) -> int: ...

    def observe(self, evidence: Evidence) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One workload in the end."""

    usd: float
    finished: bool
    late: bool
    took_s: float
    attempts: int
    refusals: int
    expected_usd: float | None


def simulate(world: World, policy: Policy) -> tuple[Outcome, ...]:
    """The outcomes in the order of arrival."""
    held = [Progress(workload=workload, left_s=workload.run_s) for workload in world.workloads]
    queue: list[tuple[float, int, int | None, Ended | None]] = [
        (progress.workload.arrives_s, number, None, None) for number, progress in enumerate(held)
    ]
    heapq.heapify(queue)
    while queue:
        now_s, number, offer, ended = heapq.heappop(queue)
        progress = held[number]
        if ended is not None and offer is not None:
            policy.observe(_evidence(world, offer, ended))
            _book(progress, offer, ended)
            if progress.finished_s is not None or _given_up(progress):
                continue
            if progress.refused_in_a_row >= PATIENCE:
                progress.refused_in_a_row = 0
                heapq.heappush(queue, (now_s + WAIT_S, number, None, None))
                continue
        chosen = policy.choose(progress, now_s)
        attempted = attempt(world, progress, chosen, now_s)
        heapq.heappush(queue, (attempted.at_s, number, chosen, attempted))
    return tuple(_outcome(progress) for progress in held)


def attempt(world: World, progress: Progress, offer: int, now_s: float) -> Ended:
    """What comes of taking this offer now. Chances belong to workload, offer and try, so all policies meet the same."""
    workload = progress.workload
    if not world.available(offer, now_s):
        return Ended(at_s=now_s + REFUSAL_S, usd=0.0, refused=True, left_s=progress.left_s)
    chance = workload.number, offer, progress.tried.get(offer, 0) % CHANCES
    usd_per_s = float(world.usd_per_hour[offer]) / HOUR_S
    startup_s = float(world.startup_s[offer] * 2.718281828 ** (world.startup_spread * world.chance_startup[chance]))
    begins_s = now_s + startup_s
    lost_s = world.down_from_s(offer, now_s) if world.is_spot[offer] else float("inf")
    if lost_s <= begins_s:
        return Ended(at_s=lost_s, usd=(lost_s - now_s) * usd_per_s, left_s=progress.left_s, taken_away=True)
    if world.chance_start[chance] < world.failing[offer]:
        return Ended(at_s=begins_s, usd=startup_s * usd_per_s, left_s=progress.left_s)
    broken_s = begins_s + float(world.chance_hardware[chance] / world.hardware_per_hour[offer]) * HOUR_S
    done_s, lost_s = begins_s + progress.left_s, min(lost_s, broken_s)
    ends_s = min(done_s, lost_s)
    ran_s = ends_s - begins_s
    kept_s = ran_s // CHECKPOINT_S * CHECKPOINT_S if workload.resumable else 0.0
    return Ended(
        at_s=ends_s,
        usd=(ends_s - now_s) * usd_per_s,
        started=True,
        startup_s=startup_s,
        ran_s=ran_s,
        left_s=0.0 if done_s <= lost_s else progress.left_s - kept_s,
        taken_away=lost_s < done_s,
    )


def _book(progress: Progress, offer: int, ended: Ended) -> None:
    progress.usd += ended.usd
    progress.left_s = ended.left_s
    if ended.left_s == 0.0:
        progress.attempts += 1
        progress.finished_s = ended.at_s
        return
    progress.failed_on.append(offer)
    if ended.started:
        progress.launch_from = len(progress.failed_on)
    if ended.refused:
        progress.refusals += 1
        progress.refused_in_a_row += 1
    else:
        progress.attempts += 1
        progress.refused_in_a_row = 0
        progress.tried[offer] = progress.tried.get(offer, 0) + 1


def _given_up(progress: Progress) -> bool:
    return progress.attempts >= ATTEMPTS_MAX or progress.refusals >= REFUSALS_MAX


def _evidence(world: World, row: int, ended: Ended) -> Evidence:
    offer = world.table.offer(row)
    return Evidence(
        offer_id=offer.id,
        provider=offer.provider,
        region=offer.region,
        gpu_model=offer.gpu.model if offer.gpu else "",
        capacity_type=str(offer.capacity_type),
        at_ms=clock_ms(ended.at_s),
        started=ended.started,
        startup_s=ended.startup_s,
        hours=ended.ran_s / HOUR_S,
        taken_away=ended.taken_away,
        refused=ended.refused,
    )


def clock_ms(at_s: float) -> int:
    """The simulated time as the engine counts it."""
    return 1_800_000_000_000 + int(at_s * 1000)


def _outcome(progress: Progress) -> Outcome:
    workload, finished_s = progress.workload, progress.finished_s
    return Outcome(
        usd=progress.usd,
        finished=finished_s is not None,
        late=finished_s is None or finished_s > workload.due_s,
        took_s=0.0 if finished_s is None else finished_s - workload.arrives_s,
        attempts=progress.attempts,
        refusals=progress.refusals,
        expected_usd=progress.expected_usd,
    )


def successes(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.finished for outcome in outcomes)
