"""What the placement benchmark asks for, and what attempts are taken to have taught before."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from placet.domain.experience import Evidence, Experience
from placet.domain.offer_table import OfferTable
from placet.domain.spec import (
    Accelerator,
    Constraints,
    Objective,
    Resources,
    Runtime,
    RuntimeKind,
    Spec,
)
from placet.stages.filters import NO_EXPERIENCE, Asked
from placet.stages.learning import learn
from placet.stages.sizing import size

NOW_MS = 1_800_000_000_000
MINUTE_MS, DAY_MS = 60_000, 86_400_000
ATTEMPTS, SEED = 400, 7
GB = 10**9


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request; ``peers`` when gpuhunt and SkyPilot can express it."""

    gpu_count: int = 1
    gpu_memory_gb: int | None = None
    models: tuple[str, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = Objective.COST
    peers: bool = False

    @property
    def spec(self) -> Spec:
        memory = None if self.gpu_memory_gb is None else self.gpu_memory_gb * GB
        return Spec(
            runtime=Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/work:1"),
            resources=Resources(
                accelerator=Accelerator.GPU if self.gpu_count else Accelerator.NONE,
                gpu_count=self.gpu_count,
                gpu_memory_bytes=memory,
                gpu_models=self.models,
            ),
            constraints=self.constraints,
            objective=self.objective,
        )


BOUNDED = Constraints(jurisdictions=("EU",), cost_usd=Decimal(20), runtime_s=Decimal(7200), deadline_ms=NOW_MS + DAY_MS)
CASES: Mapping[str, Case] = {
    "any GPU of 24 GB": Case(gpu_memory_gb=24, peers=True),
    "8 A100-80GB": Case(gpu_count=8, models=("A100-80GB",), peers=True),
    "one of four models": Case(models=("A100-80GB", "H100-80GB", "A6000", "L4"), peers=True),
    "40 GB, EU, under 20 USD, by tomorrow": Case(gpu_memory_gb=40, constraints=BOUNDED),
    "no GPU": Case(gpu_count=0),
    "24 GB, balanced": Case(gpu_memory_gb=24, objective=Objective.BALANCED),
    "24 GB, reliability": Case(gpu_memory_gb=24, objective=Objective.RELIABILITY),
    "24 GB, speed": Case(gpu_memory_gb=24, objective=Objective.SPEED),
}


def asked_of(case: Case, experience: Experience | None, number: int) -> Asked:
    """The request some minutes later each time, so that evidence has to be aged anew."""
    spec = case.spec
    known = NO_EXPERIENCE if experience is None else experience
    return Asked(spec=spec, demand=size(spec), now_ms=NOW_MS + number * MINUTE_MS, experience=known)


def experience_of(table: OfferTable) -> Experience:
    """What some hundred attempts, on offers all over the table, have taught."""
    rng = np.random.default_rng(SEED)
    rows = rng.choice(len(table), min(ATTEMPTS, len(table)), replace=False)
    evidence = []
    for row in rows.tolist():
        offer, started = table.offer(row), rng.random() < 0.8
        evidence.append(
            Evidence(
                offer_id=offer.id,
                provider=offer.provider,
                region=offer.region,
                gpu_model=offer.gpu.model if offer.gpu else "",
                capacity_type=str(offer.capacity_type),
                at_ms=NOW_MS - int(rng.integers(20 * DAY_MS)),
                started=bool(started),
                startup_s=float(rng.lognormal(5.0, 0.5)) if started else None,
                hours=float(rng.exponential(2.0)) if started else 0.0,
                taken_away=bool(started and rng.random() < 0.1),
            )
        )
    return learn(Experience(), evidence)
