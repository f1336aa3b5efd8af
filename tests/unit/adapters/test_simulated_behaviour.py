"""What a simulated machine is follows from facts and the time alone."""

from dataclasses import fields
from decimal import Decimal

import pytest

from placet.adapters.providers.simulated import translate
from placet.adapters.providers.simulated.behaviour import (
    Behaviour,
    Machine,
    Order,
    State,
    charged_usd,
    ignores_stop,
    log_of,
    look,
    refuses_stop,
    visible,
    written_bytes,
)
from placet.adapters.providers.simulated.offers import ROWS, Row, make_offers
from placet.adapters.providers.simulated.options import SimulatedOptions, behaviour_of
from placet.contract.simulated import Simulated
from placet.domain.values import evolve

T = 1_800_000_000_000


def machine(*, granted_s: tuple[float, ...] = (3.0,), **how: object) -> Machine:
    """Ordered at T; its permits come so many seconds later. It takes 2 s to build and runs for 10."""
    behaviour = Behaviour(**{"runtime_s": 10.0, **how})  # type: ignore[arg-type]  # the fields of Behaviour, by name
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
        quantum_s=1,
        asked_ms=T,
        behaviour=behaviour,
    )
    return Machine(order=order, granted_ms=tuple(T + int(each * 1000) for each in granted_s))


def states(held: Machine, *at_s: float) -> list[State]:
    return [look(held, T + int(each * 1000)).state for each in at_s]


S = State


def test_a_machine_goes_its_way_by_the_time_alone() -> None:
    held = machine()
    assert states(held, 0, 1.9, 2, 2.9, 3, 12.9, 13, 10**6) == [
        S.BUILDING, S.BUILDING, S.READY, S.READY, S.RUNNING, S.RUNNING, S.EXITED, S.EXITED,
    ]  # fmt: skip
    over = look(held, T + 10**9)
    assert (over.started_ms, over.ended_ms, over.next_ms) == (T + 3000, T + 13_000, None)


def test_without_a_permit_it_waits_for_ever() -> None:
    assert states(machine(granted_s=()), 2, 10**6) == [S.READY, S.READY]


@pytest.mark.parametrize(
    ("how", "at_s", "expected"),
    [
        ({"late_create_s": 20.0}, (19, 20, 22, 25), [S.ABSENT, S.BUILDING, S.RUNNING, S.RUNNING]),
        ({"unknown_state_s": 5.0}, (1, 2, 6.9, 7), [S.BUILDING, S.WARMING, S.WARMING, S.RUNNING]),
        ({"start_fails": True}, (2.9, 3), [S.READY, S.START_FAILED]),
        (
            {"preempt_after_s": 6.0, "preempt_notice_s": 2.0},
            (6.9, 7, 8.9, 9),
            [S.RUNNING, S.INTERRUPTING, S.INTERRUPTING, S.PREEMPTED],
        ),
        ({"host_lost_after_s": 4.0}, (6.9, 7), [S.RUNNING, S.VANISHED]),
        ({"restart_after_s": 4.0}, (6.9, 7, 100), [S.RUNNING, S.READY, S.READY]),
        ({"restart_after_s": 400.0}, (13,), [S.EXITED]),
    ],
)
def test_each_fault_has_its_time(how: dict[str, object], at_s: tuple[float, ...], expected: list[State]) -> None:
    assert states(machine(**how), *at_s) == expected


def test_a_restarted_program_begins_anew_with_a_new_permit() -> None:
    held = machine(granted_s=(3, 8), restart_after_s=4.0)
    assert states(held, 7.5, 8, 17.9, 18) == [S.READY, S.RUNNING, S.RUNNING, S.EXITED]
    assert look(held, T + 6000).incarnation == 1
    assert (look(held, T + 9000).incarnation, look(held, T + 9000).started_ms) == (2, T + 8000)


def test_what_is_told_next_is_the_next_change() -> None:
    held = machine(preempt_after_s=6.0, preempt_notice_s=2.0)
    moments, at_ms = [], T
    while (following := look(held, at_ms).next_ms) is not None:
        assert look(held, following) != look(held, at_ms)
        moments.append(following - T)
        at_ms = following
    assert moments == [2000, 7000, 9000]


def test_stops_are_ignored_as_often_as_asked_for_and_then_heard() -> None:
    held = machine(stops_ignored=2)
    for at_s in (4, 5):
        assert ignores_stop(held)
        held = evolve(held, stops_ms=(*held.stops_ms, T + at_s * 1000))
        assert states(held, at_s + 0.5) == [S.RUNNING]
    assert not ignores_stop(held)
    held = evolve(held, stops_ms=(*held.stops_ms, T + 6000))
    assert states(held, 5.9, 6) == [S.RUNNING, S.STOPPED]


def test_what_is_being_made_may_refuse_to_stop() -> None:
    held = machine(stop_refused_while_provisioning=True, unknown_state_s=1.0)
    assert [refuses_stop(held, T + at_ms) for at_ms in (0, 1999, 2999, 3000)] == [True, True, True, False]
    assert not refuses_stop(machine(), T)


def test_a_time_limit_ends_it() -> None:
    held = machine()
    held = evolve(held, order=evolve(held.order, runtime_limit_s=4.0))
    assert states(held, 6.9, 7) == [S.RUNNING, S.TIMED_OUT]


def test_it_is_seen_late_and_not_when_it_is_gone() -> None:
    held = machine(visibility_s=1.5, host_lost_after_s=4.0)
    assert [visible(held, T + at_ms) for at_ms in (0, 1499, 1500, 6999, 7000)] == [False, False, True, True, False]


def test_the_meter_counts_whole_quanta_at_its_own_price_and_stops_at_the_end() -> None:
    held = machine(price_factor=Decimal("1.5"))
    # 36 USD per hour is one cent per second; half as much again is charged.
    assert [charged_usd(held, T + at_ms) for at_ms in (0, 1, 1000, 1001)] == [
        Decimal("0.000000"), Decimal("0.015000"), Decimal("0.015000"), Decimal("0.030000"),
    ]  # fmt: skip
    assert charged_usd(held, T + 10**9) == Decimal("0.195000")
    hourly = evolve(held, order=evolve(held.order, quantum_s=3600))
    assert charged_usd(hourly, T + 1) == Decimal("54.000000")
    assert charged_usd(machine(late_create_s=9.0), T + 8000) == 0


def test_the_log_grows_with_the_run_and_loses_its_end() -> None:
    held = machine(log="0123456789", log_lost_bytes=3)
    assert [written_bytes(held, T + at_s * 1000) for at_s in (2, 3, 7, 13, 99)] == [0, 0, 4, 10, 10]
    assert translate.log(held, "stdout", T + 7000) == (b"0123", 4)
    assert translate.log(held, "stdout", T + 13_000) == (b"0123456", 10)
    card = translate.card(SimulatedOptions(folder=None), ("process",))  # type: ignore[arg-type]  # it is not opened
    [out, err] = translate.observation(held, card, "simulated", T + 13_000).logs
    assert (out.bytes_total, out.bytes_kept, out.gaps) == (10, 7, ((7, 3),))
    assert (err.bytes_total, err.gaps) == (0, ())
    assert b"no program is run" in log_of(machine())


def test_only_the_first_attempts_meet_the_faults() -> None:
    how = Behaviour(faulty_attempts=2, refuse="capacity", exit_code=3, runtime_s=1.0, log="x")
    assert how.met_by(2) == how
    assert how.met_by(3) == Behaviour(faulty_attempts=2, exit_code=3, runtime_s=1.0, log="x")


def test_every_option_of_the_contract_is_one_of_the_behaviour_and_keeps_its_value() -> None:
    named = {
        name.removesuffix("_seconds") + "_s" if name.endswith("_seconds") else name for name in Simulated.model_fields
    }
    assert named == {each.name for each in fields(Behaviour)}
    stated = Simulated(
        runtime_seconds="1m", price_factor=Decimal("0.5"), stops_ignored=2, wait_hint=False, refuse="quota"
    )
    read = behaviour_of(stated.stated(), Behaviour(exit_code=7))
    assert read == Behaviour(
        runtime_s=60.0, price_factor=Decimal("0.5"), stops_ignored=2, wait_hint=False, refuse="quota", exit_code=7
    )
    with pytest.raises(ValueError, match="no option 'later'"):
        behaviour_of('{"later": 1}', Behaviour())


@pytest.mark.parametrize("offset_s", [-600, 0, 600])
def test_times_are_told_on_our_clock(offset_s: int) -> None:
    card = translate.card(SimulatedOptions(folder=None), ("process",))  # type: ignore[arg-type]  # it is not opened
    seen = translate.observation(machine(clock_offset_s=offset_s), card, "simulated", T + 20_000)
    assert (seen.created_ms, seen.started_ms, seen.ended_ms) == (T, T + 3000, T + 13_000)


def test_an_unknown_word_is_unknown_and_all_others_are_not() -> None:
    card = translate.card(SimulatedOptions(folder=None), ("process",))  # type: ignore[arg-type]  # it is not opened
    unlisted = {state for state in State if state.value not in dict(card.states)}
    assert unlisted == {S.ABSENT, S.WARMING, S.VANISHED, S.DELETED}  # the others are never told as words


def test_the_list_gives_nothing_away() -> None:
    free = Row(id="free", region="simulated-eu", cpu_cores=1, memory_gb=1, price="0", machines=1)
    made = make_offers((*ROWS, free), {"simulated-eu-l4": 8}, provider="p", startup_s=2, by_name_only=True, now_ms=T)
    assert "free" not in {offer.id for offer in made}
    assert all(offer.simulated and offer.by_name_only and offer.price_usd_per_hour > 0 for offer in made)
    assert [offer.free.gpus for offer in made if offer.id == "simulated-eu-l4"] == [0]
