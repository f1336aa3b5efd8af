"""Faults of isolation between tenants."""

from pathlib import Path

from placet.adapters.ambient import SystemClock
from placet.engine.resolving import Resolving
from placet.server.rest import declared
from placet.testing.scripted import Script
from tests.support.missing import not_built
from tests.support.worlds import always as scripted
from tests.support.worlds import control_plane


def test_fault_TEN_01() -> None:
    without = {door.path for door in declared() if door.scope is None}
    assert not any("{" in path for path in without), without


async def test_fault_TEN_02(tmp_path: Path) -> None:
    async with control_plane(tmp_path, scripted(Script(hold=True))) as plane:
        theirs = await plane.submit()
        nobody = "wl_" + "0" * 29
        resolving = Resolving(plane.store, SystemClock(), plane.reconciler.touched)
        for ask in (
            lambda one: plane.queries.get("other", one),
            lambda one: plane.queries.account("other", one),
            lambda one: plane.queries.result("other", one),
            lambda one: plane.intake.cancel("other", one, "test"),
            lambda one: resolving.go_on("other", one, "test"),
        ):
            assert await ask(theirs) == await ask(nobody) is None
        await plane.intake.cancel("tenant", theirs, "test")


@not_built("artifacts of one workload as inputs of another")
def test_fault_TEN_05() -> None: ...


def test_fault_TEN_06() -> None:
    """Each door about a workload asks for a scope: none was added without one."""
    about = [door for door in declared() if door.path.startswith("/v1/workloads")]
    assert len(about) > 5
    assert all(door.scope is not None for door in about)
