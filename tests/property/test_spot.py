"""Spot with a deadline, for any trace: never late where it can be kept, nothing chosen that is not there."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.domain.spec import CapacityType
from placet.stages.spot import Action, Decision, Held, Place, Situation, decide
from placet.stages.spot_history import begin, watch

CHANGEOVERS_S = (30, 600, 900)
LOOK_S = 600
TICKS_MAX = 40


@dataclass(frozen=True, kw_only=True)
class World:
    """Spot per tick and place, and one workload in it."""

    up: tuple[tuple[bool, ...], ...]
    work_s: int
    changeover_s: int
    spot_usd: tuple[float, ...]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """The deadline is the end of the trace; work and one changeover fit before it."""
    ticks = draw(st.integers(4, TICKS_MAX))
    places = draw(st.integers(1, 3))
    changeover_s = draw(st.sampled_from(CHANGEOVERS_S))
    runs = st.lists(st.tuples(st.booleans(), st.integers(1, 12)), min_size=1, max_size=20)
    traces = []
    for _ in range(places):
        trace = [there for there, length in draw(runs) for _ in range(length)]
        traces.append((trace * ticks)[:ticks])
    return World(
        up=tuple(zip(*traces, strict=True)),
        work_s=draw(st.integers(1, ticks * LOOK_S - changeover_s)),
        changeover_s=changeover_s,
        spot_usd=tuple(draw(st.sampled_from((0.5, 1.0, 2.9))) for _ in range(places)),
    )


@dataclass
class Life:
    """Follows every decision; time goes on, spot is lost where the trace says so."""

    world: World
    left_s: float = 0.0
    held: Held | None = None

    def done_in_time(self) -> bool:
        world = self.world
        self.left_s = world.work_s
        history = begin(world.up[0])
        for tick, up in enumerate(world.up):
            history = watch(history, up, LOOK_S) if tick else history
            if self.held is not None and self.held.capacity is CapacityType.SPOT and not up[self.held.place]:
                self.held = None
            asked = Situation(
                time_left_s=(len(world.up) - tick) * LOOK_S,
                work_left_s=self.left_s,
                planned_s=len(world.up) * LOOK_S,
                planned_work_s=world.work_s,
                changeover_s=world.changeover_s,
                look_s=LOOK_S,
                held=self.held,
                places=tuple(
                    Place(name=str(number), spot_there=there, spot_usd_per_hour=usd, on_demand_usd_per_hour=3.0)
                    for number, (there, usd) in enumerate(zip(up, world.spot_usd, strict=True))
                ),
                history=history,
            )
            decision = decide(asked)
            assert decision == decide(asked)
            self.follow(decision, up)
            if self.left_s <= 0:
                return True
        return False

    def follow(self, decision: Decision, up: tuple[bool, ...]) -> None:
        match decision.action:
            case Action.WAIT:
                self.held = None
            case Action.STAY:
                assert self.held is not None
            case Action.SPOT:
                assert decision.place is not None
                assert up[int(decision.place)]
                self.held = self.started(CapacityType.SPOT, int(decision.place))
            case Action.ON_DEMAND:
                assert decision.place is not None
                self.held = self.started(CapacityType.ON_DEMAND, int(decision.place))
        if self.held is not None:
            self.left_s -= max(LOOK_S - self.held.pending_s, 0)
            pending_s = max(self.held.pending_s - LOOK_S, 0)
            self.held = Held(capacity=self.held.capacity, place=self.held.place, pending_s=pending_s)

    def started(self, capacity: CapacityType, place: int) -> Held:
        return Held(capacity=capacity, place=place, pending_s=self.world.changeover_s)


@settings(max_examples=60)
@given(worlds())
def test_no_trace_makes_it_late(world: World) -> None:
    assert Life(world).done_in_time()


@given(worlds(), st.integers(0, 3))
def test_a_place_more_is_never_named_when_it_has_no_spot(world: World, extra: int) -> None:
    up = (*world.up[0], *(False for _ in range(extra)))
    asked = Situation(
        time_left_s=len(world.up) * LOOK_S,
        work_left_s=world.work_s,
        planned_s=len(world.up) * LOOK_S,
        planned_work_s=world.work_s,
        changeover_s=world.changeover_s,
        look_s=LOOK_S,
        held=None,
        places=tuple(
            Place(name=str(number), spot_there=there, spot_usd_per_hour=1.0, on_demand_usd_per_hour=3.0)
            for number, there in enumerate(up)
        ),
        history=begin(up),
    )
    decision = decide(asked)
    assert decision.action is not Action.STAY
    if decision.action is Action.SPOT:
        assert decision.place is not None
        assert up[int(decision.place)]
