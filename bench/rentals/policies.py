"""Who chooses in the simulated market: people with a price list, what failover tools do, Placet, and two oracles."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property

import numpy as np

from bench.rentals.simulation import CHECKPOINT_S, Policy, Progress, attempt, clock_ms
from bench.rentals.world import HOUR_S, TICK_S, Workload, World
from placet.domain.experience import Beliefs, Evidence, Experience
from placet.domain.spec import Accelerator, Repeat, Resources, Runtime, RuntimeKind, Spec
from placet.domain.spec import Constraints as Bounds
from placet.stages.filters import NEVER_FILTERS, Asked
from placet.stages.learning import expected_course, learn
from placet.stages.placement import place
from placet.stages.sizing import size

CHEAPEST, FAILOVER, RANDOM, PLACET = "cheapest listed", "price-ordered failover", "random", "placet"
FORGETFUL, ON_DEMAND = "placet without evidence", "failover, no spot"
ORACLE, CLAIRVOYANT = "oracle: all rates and what is free", "clairvoyant: no attempt is lost"
GB = 10**9


def spec_of(workload: Workload) -> Spec:
    """What the owner of a workload writes."""
    return Spec(
        runtime=Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/work:1"),
        resources=Resources(
            accelerator=Accelerator.GPU,
            gpu_count=workload.gpu_count,
            gpu_memory_bytes=workload.gpu_memory_gb * GB,
        ),
        constraints=Bounds(runtime_s=Decimal(round(workload.limit_s))),
        repeat=Repeat.RESUMABLE if workload.resumable else Repeat.SAFE,
    )


class Fitting:
    """Which offers fit a workload, by the filters that placement uses; the same for every policy."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._asked: dict[int, Asked] = {}
        self._fits: dict[int, np.ndarray] = {}

    def asked(self, workload: Workload) -> Asked:
        if workload.number not in self._asked:
            spec = spec_of(workload)
            self._asked[workload.number] = Asked(spec=spec, demand=size(spec), now_ms=clock_ms(workload.arrives_s))
        return self._asked[workload.number]

    def offers(self, workload: Workload) -> np.ndarray:
        """Rows that fit, cheapest first."""
        if workload.number not in self._fits:
            asked, table = self.asked(workload), self.world.table
            passed = [check.passes(asked, table) for check in NEVER_FILTERS]
            fits = np.logical_and.reduce([np.ones(len(table), bool), *(one for one in passed if one is not None)])
            rows = np.flatnonzero(fits)
            self._fits[workload.number] = rows[np.argsort(table.price_micro[rows], kind="stable")]
        return self._fits[workload.number]


class _Unteachable(Fitting):
    def observe(self, evidence: Evidence) -> None:
        del evidence


class CheapestListed(_Unteachable):
    """A person with a price list: always the lowest price, again and again."""

    def choose(self, progress: Progress, now_s: float) -> int:
        del now_s
        return int(self.offers(progress.workload)[0])


class Failover(_Unteachable):
    """By price: what does not start is followed by the next. What was running and is lost begins anew from the
    cheapest, without the place that lost it, as managed jobs of such tools do by default."""

    spot = True

    def choose(self, progress: Progress, now_s: float) -> int:
        del now_s
        offers = self.offers(progress.workload)
        if not self.spot:
            offers = offers[~self.world.is_spot[offers]]
        skipped = set(progress.failed_on[progress.launch_from :])
        if progress.launch_from:
            skipped.add(progress.failed_on[progress.launch_from - 1])
        if len(skipped) >= len(offers):
            progress.launch_from, skipped = len(progress.failed_on), set()
        return int(next(offer for offer in offers if offer not in skipped))


class FailoverOnDemand(Failover):
    """The same without spot capacity."""

    spot = False


class Random(_Unteachable):
    """Any that fits."""

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng([self.world.seed, 1])

    def choose(self, progress: Progress, now_s: float) -> int:
        del now_s
        return int(self._rng.choice(self.offers(progress.workload)))


class Placet(Fitting):
    """The stages that the engine asks, with what finished attempts have taught; the last failure is left alone."""

    learns = True

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._experience = Experience()
        self._row = {world.table.text("id", row): row for row in range(len(world.table))}

    def choose(self, progress: Progress, now_s: float) -> int:
        asked = self.asked(progress.workload)
        excluded = tuple(self.world.table.text("id", row) for row in progress.failed_on[-1:])
        plan = place(
            Asked(
                spec=asked.spec,
                demand=asked.demand,
                now_ms=clock_ms(now_s),
                excluded=excluded,
                experience=self._experience,
            ),
            self.world.table,
            seed=f"{self.world.seed}/{progress.workload.number}",
        )
        best = plan.ranked[0]
        if progress.expected_usd is None:
            progress.expected_usd = float(best.cost_usd.likely)
        return self._row[best.offer.id]

    def observe(self, evidence: Evidence) -> None:
        if self.learns:
            self._experience = learn(self._experience, [evidence])


class Forgetful(Placet):
    """The same, never learning: what the priors alone are worth."""

    learns = False


class Oracle(_Unteachable):
    """Knows the run time, every rate and what is free at this moment, and minimises the same expected cost."""

    @cached_property
    def _believed(self) -> Beliefs:
        world = self.world
        up = world.up.sum(axis=1).astype(np.float64)
        losses = (world.up[:, :-1] & ~world.up[:, 1:]).sum(axis=1)
        per_hour = losses / np.maximum(up * TICK_S / HOUR_S, 1.0)
        rates = np.where(world.is_spot, per_hour[world.market], 0.0) + world.hardware_per_hour
        startup = world.startup_s * np.exp(world.startup_spread**2 / 2)
        return Beliefs(
            start_share=1.0 - world.failing,
            startup_s=startup,
            startup_high_s=startup,
            losses_per_hour=rates,
            weight=np.zeros(len(rates)),
        )

    def choose(self, progress: Progress, now_s: float) -> int:
        offers = self.offers(progress.workload)
        free = offers[[self.world.available(int(offer), now_s) for offer in offers]]
        offers = free if len(free) else offers
        believed = self._believed.take(offers)
        course = expected_course(
            progress.left_s / HOUR_S,
            believed.startup_s / HOUR_S,
            believed,
            resumable=progress.workload.resumable,
            checkpoint_h=CHECKPOINT_S / HOUR_S,
        )
        return int(offers[int(np.argmin(self.world.usd_per_hour[offers] * course.hours))])


class Clairvoyant(_Unteachable):
    """Knows what will come of every choice and takes the cheapest attempt that succeeds; nobody can do this.

    It is no lower bound: for work that resumes, a cheap attempt that is lost half-way may be worth it.
    """

    def choose(self, progress: Progress, now_s: float) -> int:
        ends = [(int(row), attempt(self.world, progress, int(row), now_s)) for row in self.offers(progress.workload)]
        good = [(ended.usd, row) for row, ended in ends if ended.left_s == 0.0]
        return min(good)[1] if good else min((ended.usd, row) for row, ended in ends)[1]


POLICIES: Mapping[str, Callable[[World], Policy]] = {
    RANDOM: Random,
    CHEAPEST: CheapestListed,
    ON_DEMAND: FailoverOnDemand,
    FAILOVER: Failover,
    FORGETFUL: Forgetful,
    PLACET: Placet,
    ORACLE: Oracle,
    CLAIRVOYANT: Clairvoyant,
}
