"""Faults between an allocation and the first line of the program: images, drivers, hosts that break everything."""

import itertools
from dataclasses import replace

from placet.domain.failures import Cause
from placet.domain.states import WorkloadState
from placet.stages.blocking import RULES
from placet.testing.world.serving import World
from tests.support.faulty import at, first, lived, wish
from tests.support.missing import not_built

W = WorkloadState
DRIVER = not_built("a look at a machine's driver and devices before the program starts")


@not_built("containers whose image is pulled by the provider")
def test_fault_START_04() -> None: ...


@DRIVER
def test_fault_START_06() -> None: ...


@DRIVER
def test_fault_START_07() -> None: ...


@DRIVER
def test_fault_START_08() -> None: ...


def test_fault_START_09() -> None:
    """No failure blocks anything for ever, and the first block is short."""
    assert all(rule.most_ms <= 3_600_000 and rule.first_ms <= 300_000 for rule in RULES.values())
    seen = lived([wish(infrastructure_attempts=9)], when={"bad_host": first(6)}, offers=1, faults_s=7200.0)
    assert seen.workload().state is W.SUCCEEDED


@not_built("a watch over a machine's devices while a program runs")
def test_fault_START_10() -> None: ...


def test_fault_START_12() -> None:
    """What fails at once is left alone for the next try, and the tries are spread over time and offers."""
    seen = lived([wish(infrastructure_attempts=5)], when={"bad_host": first(3)})
    machines = seen.machines()
    offers = [machine.launch.offer.id for machine in machines]
    assert seen.workload().state is W.SUCCEEDED
    assert all(one != following for one, following in itertools.pairwise(offers))
    assert all(one.landed_s + 1 < following.landed_s for one, following in itertools.pairwise(machines))


def test_fault_START_13() -> None:
    def take_away(world: World) -> None:
        (machine,) = world.cloud.machines.values()
        assert machine.starts == 0
        world.cloud.delete(machine, asked=False)

    seen = lived(when={"slow_boot": at(0)}, sizes={"slow_boot": 200.0}, then={20.0: take_away})
    assert seen.workload().state is W.SUCCEEDED
    assert len(seen.machines()) == 2
    gone, later = seen.machines()
    assert gone.deleted_s is not None
    assert later.landed_s - gone.deleted_s > 5.0, "absence is a conclusion, not one look"


def test_fault_START_14() -> None:
    seen = lived(when={"lost_request": at(0)})
    assert seen.workload().state is W.SUCCEEDED
    attempts = seen.records["w0"].attempts
    assert [attempt.failure.cause for attempt in attempts if attempt.failure] == [Cause.UNRESOLVED]
    assert seen.workload().finished_ms is not None
    assert replace(seen.workload()).finished_ms - seen.workload().created_ms < 300_000
