"""Faults of credentials and secrets."""

from placet.domain.states import WorkloadState
from placet.testing.world.serving import World
from tests.support.faulty import lived, wish
from tests.support.missing import not_built

SECRETS = not_built("secrets")


@not_built("tokens of runners that call the server over a network")
def test_fault_CRED_01() -> None: ...


def test_fault_CRED_03() -> None:
    """The credentials expire between two calls and are good again later; nothing stalls."""

    def expire(world: World) -> None:
        world.wire.expired_until_s = world.loop.time() + 100

    seen = lived([wish(runs_s=200.0)], then={60.0: expire, 300.0: expire})
    assert (seen.workload().state, len(seen.machines())) == (WorkloadState.SUCCEEDED, 1)


@SECRETS
def test_fault_CRED_06() -> None: ...


@SECRETS
def test_fault_CRED_07() -> None: ...


@not_built("a provider that is called over HTTP")
def test_fault_CRED_08() -> None: ...


@SECRETS
def test_fault_CRED_09() -> None: ...


@SECRETS
def test_fault_CRED_10() -> None: ...


@not_built("links to a bucket that machines elsewhere write to")
def test_fault_CRED_11() -> None: ...
