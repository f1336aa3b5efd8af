"""Laws of simulated machines: what they are changes only when they said so, and what is over stays as it was."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.adapters.providers.simulated.behaviour import (
    OVER,
    Behaviour,
    Machine,
    Order,
    State,
    charged_usd,
    log_of,
    look,
    written_bytes,
)

T = 1_800_000_000_000
seconds = st.sampled_from([0.0, 0.001, 0.5, 1.0, 2.5, 7.0])
perhaps = st.none() | seconds
behaviours = st.builds(
    Behaviour,
    runtime_s=seconds,
    exit_code=st.integers(0, 3),
    startup_s=seconds,
    late_create_s=seconds,
    unknown_state_s=seconds,
    visibility_s=seconds,
    stops_ignored=st.integers(0, 2),
    start_fails=st.booleans(),
    preempt_after_s=perhaps,
    preempt_notice_s=seconds,
    host_lost_after_s=perhaps,
    restart_after_s=perhaps,
    price_factor=st.sampled_from([Decimal(1), Decimal("2.5")]),
)
# Coarse, so that two moments meet often.
after = st.integers(0, 48).map(lambda quarters: quarters * 250)
moments = st.lists(after.map(lambda after_ms: T + after_ms), max_size=3).map(sorted)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    order = Order(
        key="k",
        native_id="n",
        deployment="d",
        workload_id="w",
        epoch=1,
        nonce="x",
        offer_id="o",
        region="r",
        price_usd_per_hour=Decimal(36),
        quantum_s=draw(st.sampled_from([1, 60])),
        asked_ms=T,
        behaviour=draw(behaviours),
        runtime_limit_s=draw(perhaps),
    )
    return Machine(
        order=order,
        granted_ms=tuple(draw(moments)),
        denied_ms=draw(st.none() | after.map(lambda after_ms: T + after_ms)),
        stops_ms=tuple(draw(moments)),
    )


@settings(max_examples=200)
@given(machines(), after, after)
def test_a_machine_changes_only_when_it_said_that_it_would(held: Machine, first_ms: int, more_ms: int) -> None:
    now_ms = T + first_ms
    seen = look(held, now_ms)
    # What somebody asks of it later is not its own change; a permit or a stop that is on record already may be.
    asked = [at_ms for at_ms in (*held.granted_ms, *held.stops_ms, held.denied_ms or 0) if at_ms > now_ms]
    until_ms = min([now_ms + more_ms, *(at_ms - 1 for at_ms in asked)])
    if seen.next_ms is not None:
        assert seen.next_ms > now_ms
        until_ms = min(until_ms, seen.next_ms - 1)
    later = look(held, max(until_ms, now_ms))
    assert (later.state, later.incarnation, later.started_ms) == (seen.state, seen.incarnation, seen.started_ms)


@given(machines(), after, after)
def test_what_is_over_stays_as_it_was(held: Machine, first_ms: int, more_ms: int) -> None:
    seen = look(held, T + first_ms)
    if seen.over:
        assert look(held, T + first_ms + more_ms) == seen
        assert seen.state in OVER
        assert seen.next_ms is None
        assert seen.ended_ms is not None
        assert seen.ended_ms <= T + first_ms
        assert seen.started_ms is None or seen.made_ms <= seen.started_ms <= seen.ended_ms


@given(machines(), after, after)
def test_the_meter_never_runs_back_and_the_log_never_shrinks(held: Machine, first_ms: int, more_ms: int) -> None:
    now_ms, later_ms = T + first_ms, T + first_ms + more_ms
    assert 0 <= charged_usd(held, now_ms) <= charged_usd(held, later_ms)
    assert 0 <= written_bytes(held, now_ms) <= len(log_of(held))
    if look(held, now_ms).incarnation == look(held, later_ms).incarnation:
        assert written_bytes(held, now_ms) <= written_bytes(held, later_ms)


@given(machines(), after)
def test_nothing_runs_without_a_permit(held: Machine, after_ms: int) -> None:
    seen = look(held, T + after_ms)
    if seen.started_ms is not None or seen.state in (State.RUNNING, State.INTERRUPTING, State.EXITED):
        assert held.granted_ms
        assert seen.started_ms is not None
        assert seen.started_ms >= min(held.granted_ms)
