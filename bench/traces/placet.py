"""Placet's own policy on recorded traces: the stage that the engine asks, told only what a workload would see."""

from dataclasses import dataclass, field

from bench.traces.simulator import NOTHING, ON_DEMAND_USD_PER_HOUR, SPOT_USD_PER_HOUR, Case, Choice, Kind, Seen
from placet.domain.spec import CapacityType
from placet.stages.spot import Action, Held, Place, Situation, decide
from placet.stages.spot_history import LEARNING, History, Learning, begin, watch

CAPACITY = {Kind.SPOT: CapacityType.SPOT, Kind.ON_DEMAND: CapacityType.ON_DEMAND}
STARTS = {Action.SPOT: Kind.SPOT, Action.ON_DEMAND: Kind.ON_DEMAND}


@dataclass
class Placet:
    """Nothing is known of spot before the workload starts."""

    case: Case
    learning: Learning = LEARNING
    history: History | None = field(default=None, init=False)

    def decide(self, seen: Seen) -> Choice:
        case, names = self.case, self.case.places
        self.history = (
            begin(seen.up, self.learning) if self.history is None else watch(self.history, seen.up, case.gap_s)
        )
        held = seen.held
        decision = decide(
            Situation(
                time_left_s=case.deadline_s - seen.tick * case.gap_s,
                work_left_s=seen.left_s,
                planned_s=case.deadline_s,
                planned_work_s=case.work_s,
                changeover_s=case.delay_s,
                look_s=case.gap_s,
                held=None
                if held.kind is Kind.NONE
                else Held(capacity=CAPACITY[held.kind], place=held.place, pending_s=seen.delay_left_s),
                places=tuple(
                    Place(
                        name=name,
                        spot_there=there,
                        spot_usd_per_hour=SPOT_USD_PER_HOUR,
                        on_demand_usd_per_hour=ON_DEMAND_USD_PER_HOUR,
                    )
                    for name, there in zip(names, seen.up, strict=True)
                ),
                history=self.history,
            )
        )
        if decision.action is Action.STAY:
            return held
        if decision.action is Action.WAIT or decision.place is None:
            return NOTHING
        return Choice(STARTS[decision.action], names.index(decision.place))
