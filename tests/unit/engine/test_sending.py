"""A create leaves soon after its intent or not at all."""

from dataclasses import replace
from pathlib import Path

import pytest

from placet.adapters.artifacts.files import FileArtifacts
from placet.domain.allocations import Launch, Tag
from placet.domain.offers import Demand
from placet.engine.effects import SEND_WITHIN_MS, Effects
from placet.engine.facts import Submit, SubmitAnswer
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.values import NOW_MS, OFFER, SPEC, WORKLOAD
from tests.support.worlds import always


class Clock:
    """Stands at one moment."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_s(self) -> float:
        return 0.0

    async def pause(self, duration_s: float) -> None:
        raise AssertionError(duration_s)


@pytest.mark.parametrize(("late_ms", "sent"), [(0, True), (SEND_WITHIN_MS, True), (SEND_WITHIN_MS + 1, False)])
async def test_a_worker_that_stood_still_between_intent_and_create_keeps_it(
    late_ms: int, sent: bool, tmp_path: Path
) -> None:
    provider = ScriptedProvider(Clock(), always(Script()))
    tag = Tag(deployment="d", workload_id=WORKLOAD.id, epoch=1, nonce="n")
    offer, demand = replace(OFFER, provider=provider.name), Demand()
    launch = Launch(key="placet-d-0-1", tag=tag, offer=offer, spec=SPEC, demand=demand)
    effects = Effects({provider.name: provider}, FileArtifacts(tmp_path), Clock())
    (answer,) = await effects.perform(WORKLOAD, Submit(launch=launch, intended_ms=NOW_MS - late_ms))
    assert isinstance(answer, SubmitAnswer)
    assert answer.kept is not sent
    assert (answer.handle is not None) is sent
    assert bool(provider.allocations) is sent
