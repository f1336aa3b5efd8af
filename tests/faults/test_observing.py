"""Faults of observing: absence that is none, words nobody knows, watchers that blink, starts that come too late."""

from dataclasses import replace

from placet.domain.allocations import Observation, Phase
from placet.domain.failures import Cause
from placet.domain.records import Attempt
from placet.domain.states import AttemptState, WorkloadState
from placet.stages.tracking import track
from placet.testing.scripted import CARD
from placet.testing.world.serving import World
from tests.support.faulty import always, at, dark, every, first, kill_servers, lived, wish, wishes
from tests.support.missing import not_built
from tests.support.values import ATTEMPT, NOW_MS, SEEN

W, A = WorkloadState, AttemptState
RUNS = replace(ATTEMPT, state=A.RUNNING)
DONE = replace(
    SEEN, phase=Phase.ENDED, exit_code=0, computed=True, collected=True, started_ms=NOW_MS, ended_ms=NOW_MS + 1000
)


def after(attempt: Attempt, *seen: Observation) -> Attempt:
    for one in seen:
        attempt = track(attempt, one, CARD, actor="w", now_ms=NOW_MS).attempt
    return attempt


def test_fault_OBS_01() -> None:
    seen = lived(
        when={"lost_reply": at(0), "lag": always},
        sizes={"lag": 55.0},
        card="keyless_slow",
        workers=2,
        then={1.2: kill_servers},
    )
    assert (seen.sent(), len(seen.machines()), seen.starts()) == (1, 1, 1)


def test_fault_OBS_03() -> None:
    seen = lived(when={"lost_reply": at(0), "read_error": first(10)})
    assert (seen.sent(), len(seen.machines())) == (1, 1)
    assert seen.workload().state is W.SUCCEEDED


def test_fault_OBS_05() -> None:
    never_seen = after(ATTEMPT, replace(SEEN, phase=Phase.GONE))
    assert not never_seen.final
    assert not never_seen.computed


def test_fault_OBS_06() -> None:
    assert CARD.phase("R (pending)") is Phase.UNKNOWN
    known = after(RUNS, replace(SEEN, phase=CARD.phase("R (pending)"), native_state="R (pending)"))
    assert (known.state, known.absent_reads) == (A.RUNNING, 0)


def test_fault_OBS_08() -> None:
    left = after(RUNS, replace(SEEN, phase=Phase.COLLECTING), replace(SEEN, phase=Phase.UNKNOWN))
    assert not left.final
    assert not left.computed


def test_fault_OBS_10() -> None:
    """For a while nothing at all is to be seen of what runs."""

    def hide(world: World) -> None:
        for machine in world.cloud.machines.values():
            machine.hidden_until_s = world.loop.time() + 50

    seen = lived(wishes(12, apart_s=0.2, runs_s=120.0), card="keyless_slow", then={40.0: hide}, faults_s=200.0)
    assert seen.states == {W.SUCCEEDED}
    assert all(len(seen.machines(name)) == 1 for name in seen.records)


def test_fault_OBS_11() -> None:
    seen = lived([wish(runs_s=5.0)], when={"report_delayed": always}, sizes={"report_delayed": 600.0})
    assert (seen.workload().state, len(seen.machines()), seen.starts()) == (W.SUCCEEDED, 1, 1)


@not_built("a provider that moves what runs between queues or regions")
def test_fault_OBS_12() -> None: ...


def test_fault_OBS_13() -> None:
    seen = lived([wish(runs_s=60.0)], when={"unknown_state": always}, faults_s=50.0)
    assert (seen.workload().state, len(seen.machines()), seen.starts()) == (W.SUCCEEDED, 1, 1)


def test_fault_OBS_15() -> None:
    # The oracle objects when an epoch opens while an earlier machine lives (I4).
    seen = lived([wish(start_within_s=30)], when={"never_boots": at(0)})
    early, late = seen.machines()
    assert early.deleted_s is not None or early.ended_s is not None
    assert min(each for each in (early.deleted_s, early.ended_s) if each is not None) <= late.landed_s
    assert seen.workload().state is W.SUCCEEDED


def test_fault_OBS_16() -> None:
    seen = lived(
        [wish(start_within_s=30, infrastructure_attempts=1)],
        when={"slow_boot": always, "stop_ignored": first(3)},
        sizes={"slow_boot": 60.0},
    )
    assert seen.workload().state is W.FAILED
    assert seen.workload().failure is not None
    assert seen.workload().failure.cause is Cause.START_TIMEOUT
    assert seen.starts() == 0


@not_built("runners that call the server over a network and look its address up anew")
def test_fault_OBS_17() -> None: ...


@not_built("a sign of life of the runner apart from what the provider says")
def test_fault_OBS_18() -> None: ...


def test_fault_OBS_20() -> None:
    seen = lived([wish(runs_s=3 * 3600.0)], when={"read_error": every(30)}, faults_s=4 * 3600.0)
    assert seen.asked["read_error"] > 500
    assert (len(seen.machines()), seen.starts(), seen.workload().state) == (1, 1, W.SUCCEEDED)


def test_fault_OBS_21() -> None:
    seen = lived([wish(runs_s=5000.0)], before=dark(60.0, 3660.0), faults_s=4000.0)
    assert (len(seen.machines()), seen.starts(), seen.workload().state) == (1, 1, W.SUCCEEDED)


def test_fault_OBS_24() -> None:
    seen = lived([wish(start_within_s=30, infrastructure_attempts=1)], when={"never_boots": always})
    (machine,) = seen.machines()
    assert machine.stop_asked_s is not None
    assert machine.deleted_s is not None


def test_fault_OBS_25() -> None:
    """The row that says that it is over is due again until what it had is proven gone."""
    owed: list[bool] = []

    def look(world: World) -> None:
        for record in world.disk.database.records(sorted(world.oracle.wishes)):
            held = any(attempt.handle is not None and attempt.released_ms is None for attempt in record.attempts)
            if record.workload.final and held:
                owed.append(record.workload.wake_ms is not None)

    seen = lived(
        [wish(start_within_s=30, infrastructure_attempts=1)],
        when={"never_boots": always, "release_refused": first(20)},
        then={float(second): look for second in range(30, 90)},
    )
    assert owed
    assert all(owed)
    assert seen.machines()[0].deleted_s is not None


def test_fault_OBS_26() -> None:
    """A server that read a row of long ago writes nothing and calls nobody (I7 and I12 are the oracle's)."""
    seen = lived(wishes(3), when={"held_write": at(3, 6)}, sizes={"held_write": 200.0}, workers=2, faults_s=900.0)
    assert seen.states == {W.SUCCEEDED}
    assert all(seen.starts(name) == 1 for name in seen.records)


def test_fault_OBS_28() -> None:
    seen = lived(wishes(25), when={"store_slow": always}, sizes={"store_slow": 10.0}, workers=2, faults_s=300.0)
    assert seen.states == {W.SUCCEEDED}
    assert all(len(seen.machines(name)) == 1 for name in seen.records)


def test_fault_OBS_31() -> None:
    """However often it believes that nothing was made, there is an end to it."""
    seen = lived([wish(infrastructure_attempts=3)], when={"bad_host": always}, faults_s=7200.0)
    assert len(seen.machines()) == 3
    assert seen.workload().state is W.FAILED


def test_fault_OBS_32() -> None:
    seen = lived(wishes(3, runs_s=5.0), card="forgetful")
    assert seen.states == {W.SUCCEEDED}
    assert all(len(seen.machines(name)) == 1 for name in seen.records)


def test_fault_OBS_33() -> None:
    seen = lived(
        [wish("w0"), wish("w1", cancel_at_s=2.0)], when={"lag": always}, sizes={"lag": 55.0}, card="keyed_slow"
    )
    assert (seen.workload("w0").state, seen.workload("w1").state) == (W.SUCCEEDED, W.CANCELLED)
