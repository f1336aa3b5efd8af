"""Faults of rates: refusals for too many calls, storms after an outage, deadlines of single calls."""

from dataclasses import replace

from placet.domain.allocations import RateLimit, Verb
from placet.domain.states import WorkloadState
from placet.engine.pacing import Turns
from placet.testing.scripted import CARD
from tests.sim.test_pacing import Clock
from tests.support.faulty import dark, every, lived, wish, wishes
from tests.support.missing import not_built

W = WorkloadState


async def test_fault_RATE_01() -> None:
    """One budget of a provider and verb, whoever calls."""
    clock = Clock()
    limited = replace(CARD, rate_limits=(RateLimit(verb=Verb.OBSERVE, calls=3, per_s=10.0),))
    turns = Turns({"p": limited}, clock)
    at_s = []
    for _ in range(12):
        await turns.turn("p", Verb.OBSERVE)
        at_s.append(clock.monotonic_s())
    assert all(later - earlier >= 10.0 for earlier, later in zip(at_s, at_s[3:], strict=False))


def test_fault_RATE_02() -> None:
    seen = lived(wishes(4, runs_s=60.0), when={"rate_limit": every(2)})
    assert seen.states == {W.SUCCEEDED}


async def test_fault_RATE_03() -> None:
    clock = Clock()
    limited = replace(CARD, rate_limits=(RateLimit(verb=Verb.SUBMIT, calls=5, per_s=1.0),))
    turns = Turns({"p": limited}, clock)
    begun_s = clock.monotonic_s()
    for _ in range(1000):
        await turns.turn("p", Verb.SUBMIT)
    assert clock.monotonic_s() - begun_s >= 199.0


def test_fault_RATE_07() -> None:
    seen = lived([wish(runs_s=3600.0)], when={"read_error": every(100)}, faults_s=2 * 3600.0)
    assert (len(seen.machines()), seen.workload().state) == (1, W.SUCCEEDED)


def test_fault_RATE_08() -> None:
    """After ten minutes of darkness what had waited is sent once each, and no storm of tries comes before."""
    seen = lived(wishes(5, apart_s=0.5, infrastructure_attempts=60), before=dark(0.0, 600.0), faults_s=700.0)
    assert seen.states == {W.SUCCEEDED}
    assert all(len(seen.machines(name)) == 1 for name in seen.records)
    assert seen.sent() < 5 * 30


@not_built("looks whose pace adapts to a budget of a provider")
def test_fault_RATE_09() -> None: ...
