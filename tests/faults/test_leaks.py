"""Faults of clean-up: machines that nobody stands for, stops that stop nothing, names of others."""

import asyncio

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import Handle, Verb
from placet.domain.errors import RateLimited
from placet.domain.orphans import OrphanReason
from placet.domain.states import WorkloadState
from placet.engine.pacing import Turns
from placet.stages.dispatch import attempt_key
from placet.stages.reaping import Listed, Rules, reap
from placet.testing.scripted import CARD
from placet.testing.world.serving import World
from tests.support.faulty import always, at, dark, every, first, lived, wish, wishes
from tests.support.missing import not_built
from tests.support.values import NOW_MS

W = WorkloadState


def test_fault_LEAK_01() -> None:
    told: list[bool] = []

    def look(world: World) -> None:
        for record in world.disk.database.records(sorted(world.oracle.wishes)):
            told.extend(attempt.released_ms is None for attempt in record.attempts)

    seen = lived(
        [wish(runs_s=300.0, cancel_at_s=90.0)],
        before=dark(60.0, 3660.0),
        then={second: look for second in (100.0, 1000.0, 3600.0)},
        faults_s=4000.0,
    )
    assert told
    assert all(told), "nothing is called released while nobody can see it"
    assert seen.machines()[0].deleted_s is not None


def test_fault_LEAK_02() -> None:
    seen = lived([wish(cancel_at_s=0.5)], when={"slow_wire": always}, sizes={"slow_wire": 6.0}, faults_s=120.0)
    assert seen.workload().state is W.CANCELLED
    assert all(machine.deleted_s is not None for machine in seen.machines())
    assert seen.starts() == 0


@not_built("pools of machines that outlive a workload")
def test_fault_LEAK_03() -> None: ...


def test_fault_LEAK_06() -> None:
    """The credentials are refused from before the cancel until long after it."""

    def refuse(world: World) -> None:
        world.wire.expired_until_s = 900.0

    owed: list[bool] = []

    def look(world: World) -> None:
        (record,) = world.disk.database.records(sorted(world.oracle.wishes))
        owed.append(record.attempts[0].released_ms is None)

    seen = lived(
        [wish(runs_s=2000.0, cancel_at_s=60.0)], then={50.0: refuse, 300.0: look, 800.0: look}, faults_s=1000.0
    )
    assert owed == [True, True]
    assert seen.workload().state is W.CANCELLED
    assert seen.machines()[0].deleted_s is not None


def test_fault_LEAK_09() -> None:
    seen = lived(wishes(30, apart_s=0.01), when={"no_capacity": every(3), "lost_reply": every(7)}, faults_s=60.0)
    assert seen.states == {W.SUCCEEDED}
    assert len(seen.world.cloud.machines) == sum(len(seen.machines(name)) for name in seen.records) == 30


def test_fault_LEAK_10() -> None:
    seen = lived([wish(runs_s=5.0)], when={"release_refused": first(15)})
    assert seen.asked["release_refused"] == 16
    assert seen.machines()[0].deleted_s is not None

    assert asyncio.run(_waits(Clock())) == 60.0, "the wait that the provider asks for is kept"


class Clock(SystemClock):
    """Waits without waiting."""

    now_s, waited_s = 0.0, 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    async def pause(self, duration_s: float) -> None:
        self.waited_s += duration_s


async def _waits(clock: Clock) -> float:
    turns = Turns({"p": CARD}, clock)
    turns.refused("p", Verb.RELEASE, RateLimited("slow down", provider="p", retry_after_s=60.0))
    await turns.turn("p", Verb.RELEASE)
    return clock.waited_s


@not_built("a provider whose launches make more than the machine")
def test_fault_LEAK_11() -> None: ...


def test_fault_LEAK_12() -> None:
    seen = lived([wish(infrastructure_attempts=2)], when={"bad_host": always})
    assert seen.workload().state is W.FAILED
    assert [machine.deleted_s is not None for machine in seen.machines()] == [True, True]


def test_fault_LEAK_13() -> None:
    """It dies when the create is answered and before that is written; then its owner does not want it any more."""
    seen = lived([wish(cancel_at_s=5.0)], when={"crash": at(14)})
    assert seen.report.injected["crash"] == 1
    assert seen.workload().state is W.CANCELLED
    assert all(machine.deleted_s is not None for machine in seen.machines())


def test_fault_LEAK_15() -> None:
    """The database is empty, the provider is not: all of it is told, none of it deleted."""
    handles = tuple(
        Handle(
            provider="p", key=f"placet-deadbeef-{number:029}-1", native_id=f"n{number}", created_ms=NOW_MS, nonce="n"
        )
        for number in range(3)
    )
    found = reap(Listed(handles=handles, card=CARD, records={}, known={}), Rules(), now_ms=NOW_MS)
    assert [orphan.reason for orphan in found.changed] == [OrphanReason.NO_RECORD] * 3
    assert found.release == ()


def test_fault_LEAK_18() -> None:
    seen = lived([wish(infrastructure_attempts=1)], when={"never_boots": always}, faults_s=5000.0)
    assert seen.workload().state is W.FAILED
    assert seen.machines()[0].deleted_s is not None


def test_fault_LEAK_19() -> None:
    """What the provider says from some moment on is a word that nobody knows."""
    seen = lived([wish(runs_s=60.0, runtime_s=200)], when={"unknown_state": lambda number: number > 2}, faults_s=900.0)
    assert seen.workload().final
    assert seen.machines()[0].deleted_s is not None


@not_built("containers whose image is pulled by the provider")
def test_fault_LEAK_20() -> None: ...


def test_fault_LEAK_21() -> None:
    seen = lived([wish(runs_s=9000.0, cancel_at_s=60.0)], when={"stop_ignored": first(4)}, faults_s=900.0)
    assert seen.workload().state is W.CANCELLED
    assert seen.asked["stop_ignored"] >= 5
    assert seen.machines()[0].deleted_s is not None


def test_fault_LEAK_23() -> None:
    """A machine of another deployment has a name that begins like ours."""
    ours = attempt_key("deadbeef", "wl_" + "0" * 29, 1)
    theirs = Handle(provider="p", key=ours + "0", native_id="n", created_ms=NOW_MS, nonce="theirs")
    found = reap(Listed(handles=(theirs,), card=CARD, records={}, known={}), Rules(), now_ms=NOW_MS)
    assert found.release == ()


def test_fault_LEAK_25() -> None:
    names = {attempt_key("deadbeef", "wl_" + "0" * 29, epoch) for epoch in range(1, 50)}
    assert len(names) == 49
    seen = lived([wish()], when={"bad_host": at(0), "release_refused": first(10)})
    assert len({machine.key for machine in seen.machines()}) == len(seen.machines()) == 2


def test_fault_LEAK_26() -> None:
    """There is room for one; what failed in it stands in nobody's way."""
    seen = lived(wishes(3, runs_s=5.0), when={"bad_host": first(3)}, slots=1, faults_s=1200.0)
    assert seen.states == {W.SUCCEEDED}


@not_built("a sign of life of the runner apart from what the provider says")
def test_fault_LEAK_27() -> None: ...
