"""An attempt of which nobody can tell whether it runs: waited for, given up by its owner's word, never run twice."""

from dataclasses import replace
from pathlib import Path

from placet.adapters.ambient import SystemClock
from placet.domain.account import Advice, Question, Truth
from placet.domain.allocations import Launch
from placet.domain.records import EventKind
from placet.domain.states import AttemptState, WorkloadState
from placet.engine.resolving import Doubt, NotInDoubt, Resolving
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.waiting import wait_until_async
from tests.support.worlds import TENANT, ControlPlane, start

FIRST = 1


class NobodyKnows(ScriptedProvider):
    """Its first create is lost on the way, and may land at any time: nobody knows how late."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        super().__init__(SystemClock(), self._what)
        self.card = replace(self.card, late_create_s=None)

    def _what(self, launch: Launch) -> Script:
        self.launches.append(launch)
        return Script(lose_request=len(self.launches) == FIRST)


async def in_doubt(folder: Path, provider: NobodyKnows) -> tuple[ControlPlane, Resolving, str]:
    plane = await start(f"sqlite:///{folder / 'placet.db'}", folder, provider)
    resolving = Resolving(plane.store, SystemClock(), plane.reconciler.touched)
    workload_id = await plane.submit()
    await plane.until(
        workload_id, lambda record: bool(record.attempts) and record.attempts[0].absent_reads > 3, "looked for in vain"
    )
    return plane, resolving, workload_id


async def test_nothing_goes_on_until_its_owner_says_so_and_then_only_one_runs(tmp_path: Path) -> None:
    provider = NobodyKnows()
    plane, resolving, workload_id = await in_doubt(tmp_path, provider)
    assert (await plane.record(workload_id)).attempts[0].state is AttemptState.UNKNOWN
    doubt = await resolving.doubt(TENANT, workload_id)
    assert doubt is not None
    assert (doubt.epoch, doubt.since_ms is not None, doubt.cost_usd) == (1, True, 0)
    assert isinstance(await resolving.go_on(TENANT, workload_id, "token:1"), Doubt)
    record = await plane.finished(workload_id)
    assert [attempt.state for attempt in record.attempts] == [AttemptState.LOST, AttemptState.COLLECTED]
    assert (record.attempts[0].given_up_by, record.workload.state) == ("token:1", WorkloadState.SUCCEEDED)
    kinds = [event.kind for event in await plane.store.events(workload_id)]
    assert kinds.count(EventKind.GIVEN_UP) == 1
    again = await resolving.go_on(TENANT, workload_id, "token:2")
    assert isinstance(again, NotInDoubt)
    # What was given up is not proven gone, and nobody says that it is.
    told = await plane.queries.account(TENANT, workload_id)
    assert told is not None
    answers = {answer.question: answer.answer for answer in told.answers}
    assert (answers[Question.SAFE_TO_RETRY], answers[Question.RETRY_DUPLICATES]) == (Truth.UNKNOWN, Truth.UNKNOWN)
    # The lost create lands after all: it is refused its permit, found, and deleted.
    late = provider.launches[0]
    await provider.submit(late)
    await wait_until_async(lambda: provider.allocations[late.key].released, 10, "deleted")
    await plane.until(workload_id, lambda record: record.attempts[0].released_ms is not None, "proven")
    assert provider.ran == [(workload_id, 2)]
    assert isinstance(await resolving.go_on("somebody else", workload_id, "token:3"), type(None))
    await plane.kill()


async def test_what_turns_up_in_time_is_adopted_and_nothing_is_in_doubt_any_more(tmp_path: Path) -> None:
    provider = NobodyKnows()
    plane, resolving, workload_id = await in_doubt(tmp_path, provider)
    await provider.submit(provider.launches[0])
    record = await plane.finished(workload_id)
    assert [attempt.state for attempt in record.attempts] == [AttemptState.COLLECTED]
    assert provider.ran == [(workload_id, 1)]
    assert isinstance(await resolving.go_on(TENANT, workload_id, "token:1"), NotInDoubt)
    told = await plane.queries.account(TENANT, workload_id)
    assert told is not None
    assert told.advice is Advice.NOTHING
    await plane.kill()
