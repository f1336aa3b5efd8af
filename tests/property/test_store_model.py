"""Whatever is done to a store, it answers as the dictionaries do."""

import asyncio
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from placet.adapters.store import SqlStore, make_store, migrate
from placet.domain.records import WAITS_FOR_CAPACITY, Expect, Transition, Workload, WorkloadFilter
from placet.domain.states import (
    WORKLOAD_FINAL,
    AttemptState,
    Desired,
    IntentState,
    IntentVerb,
    WorkloadState,
)
from placet.ports.store import Claim
from placet.testing.conformance.store_values import (
    acceptance_of,
    event_of,
    new_artifact,
    new_attempt,
    new_intent,
    new_workload,
    plain_spec,
)
from tests.support.store_model import StoreModel

TENANTS = ("red", "blue")
OWNERS = ("w1", "w2", "w3")
TIMEOUT_MS = 10

wakes = st.none() | st.integers(0, 60)
finals = sorted(WORKLOAD_FINAL)


class StoreMachine(RuleBasedStateMachine):
    """Each step is done to both, and then both are compared in full."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.model = StoreModel()
        self.now_ms = 0
        self.count = 0

    def address(self) -> str:
        self.folder = Path(tempfile.mkdtemp(prefix="placet-model-"))
        shutil.copy(template(), self.folder / "placet.db")
        return f"sqlite:///{self.folder}/placet.db"

    def clean(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @initialize()
    def start(self) -> None:
        self.store: SqlStore = make_store(self.address(), readers=1)
        self.runner.run(self.store.open())

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.runner.run(self.store.close())
            self.clean()
        self.runner.close()

    @rule(
        tenant=st.sampled_from(TENANTS),
        key=st.none() | st.sampled_from(["a", "b"]),
        digest=st.sampled_from(["x", "y"]),
        wake_ms=wakes,
        waits=st.booleans(),
        name=st.none() | st.just("n"),
    )
    def accept(
        self, tenant: str, key: str | None, digest: str, wake_ms: int | None, waits: bool, name: str | None
    ) -> None:
        self.count += 1
        workload = replace(
            new_workload(self.count, tenant=tenant, wake_ms=wake_ms, spec=plain_spec(name)),
            wait_for=WAITS_FOR_CAPACITY if waits else "",
        )
        acceptance = acceptance_of(workload, key, digest)
        assert self.runner.run(self.store.accept(acceptance)) == self.model.accept(acceptance)

    @precondition(lambda self: self.model.kept)
    @rule(data=st.data(), count=st.integers(1, 3))
    def apply(self, data: st.DataObject, count: int) -> None:
        drawn = [self.draw_transition(data) for _ in range(count)]
        wanted = [self.model.apply(transition) for transition in drawn]
        assert list(self.runner.run(self.store.apply(drawn))) == wanted

    def draw_transition(self, data: st.DataObject) -> Transition:
        """Mostly what is expected is true; what is written may be anything that the schema allows."""
        draw = data.draw
        kept = self.model.kept[draw(st.sampled_from(sorted(self.model.kept)))]
        old = kept.workload
        state = draw(st.just(old.state) if old.final else st.sampled_from(sorted(WorkloadState)))
        state = draw(st.sampled_from([state, state, state, *finals]))
        final = state in WORKLOAD_FINAL
        epochs = st.integers(1, 2)
        attempts = [
            replace(
                new_attempt(old, epoch, draw(st.sampled_from(sorted(AttemptState)))), exit_code=draw(st.integers(0, 2))
            )
            for epoch in sorted(draw(st.sets(epochs, max_size=2)))
        ]
        known = sorted({attempt.epoch for attempt in attempts} | kept.attempts.keys())
        intents = [
            new_intent(old, draw(st.sampled_from(known)), verb, draw(st.sampled_from(sorted(IntentState))))
            for verb in (sorted(draw(st.sets(st.sampled_from(sorted(IntentVerb)), max_size=2))) if known else ())
        ]
        artifacts = [
            new_artifact(old, path, draw(st.sampled_from(known)), draw(st.sampled_from(["aa", "bb"])))
            for path in (sorted(draw(st.sets(st.sampled_from(["p", "q"]), max_size=2))) if known else ())
        ]
        return Transition(
            expect=self.draw_expectation(data, old),
            workload=replace(
                old,
                state=state,
                revision=old.revision + 1,
                finished_ms=draw(st.sampled_from([old.finished_ms or 5, 6])) if final else None,
                wake_ms=draw(wakes),
                desired=draw(st.sampled_from(sorted(Desired))),
                lease=draw(st.sampled_from([old.lease, replace(old.lease, owner=None)])),
                wait_for=draw(st.sampled_from(["", WAITS_FOR_CAPACITY])),
            ),
            attempts=tuple(attempts),
            intents=tuple(intents),
            artifacts=tuple(artifacts),
            events=tuple(event_of(old, message=str(number)) for number in range(draw(st.integers(0, 2)))),
            result=draw(st.sampled_from([None, "{}", "[]"])) if final else None,
            flush=draw(st.booleans()),
        )

    def draw_expectation(self, data: st.DataObject, old: Workload) -> Expect:
        true = Expect(revision=old.revision, state=old.state, lease=old.lease)
        wrong_lease = replace(old.lease, epoch=old.lease.epoch + 1)
        others = [
            replace(true, lease=None),
            replace(true, lease=wrong_lease),
            replace(true, lease=replace(old.lease, owner="stranger")),
            replace(true, state=WorkloadState.PLACING),
        ]
        return data.draw(st.sampled_from([true, true, true, true, *others]))

    @rule(
        owner=st.sampled_from(OWNERS),
        later_ms=st.integers(0, 15),
        limit=st.integers(0, 4),
        waiters=st.integers(0, 2),
        after=st.data(),
    )
    def claim(self, owner: str, later_ms: int, limit: int, waiters: int, after: st.DataObject) -> None:
        self.now_ms += later_ms
        wanted = Claim(
            owner=owner,
            now_ms=self.now_ms,
            limit=limit,
            owner_timeout_ms=TIMEOUT_MS,
            capacity_waiters=waiters,
            waiters_after=after.draw(st.sampled_from(["", *self.model.kept])),
        )
        assert list(self.runner.run(self.store.claim(wanted))) == self.model.claim(wanted)

    @rule(owner=st.sampled_from(OWNERS))
    def beat(self, owner: str) -> None:
        self.runner.run(self.store.beat(owner, self.now_ms))
        self.model.beats[owner] = self.now_ms

    @rule(owner=st.sampled_from(OWNERS))
    def retire(self, owner: str) -> None:
        self.runner.run(self.store.retire(owner))
        self.model.retire(owner)

    @invariant()
    def both_tell_the_same(self) -> None:
        if hasattr(self, "store"):
            self.runner.run(self.compare())

    async def compare(self) -> None:
        store, kept = self.store, self.model.kept
        records = {record.workload.id: record for record in await store.load(list(kept))}
        assert records == {workload_id: each.record for workload_id, each in kept.items()}
        assert await store.next_wake_ms() == self.model.next_wake_ms()
        states = [each.workload.state for each in kept.values()]
        assert await store.counts() == {state: states.count(state) for state in WorkloadState}
        for tenant in TENANTS:
            mine = [kept[one].workload for one in sorted(kept, reverse=True) if kept[one].workload.tenant == tenant]
            assert list(await store.list(WorkloadFilter(tenant=tenant, limit=1000))) == mine
            ended = [workload for workload in mine if workload.final and workload.spec.name == "n"]
            assert list(await store.list(WorkloadFilter(tenant=tenant, states=tuple(finals), name="n"))) == ended
        for workload_id in list(kept)[-2:]:
            each = kept[workload_id]
            assert [replace(event, seq=0) for event in await store.events(workload_id)] == each.events[:200]
            assert list(await store.artifacts(workload_id)) == [each.artifacts[at] for at in sorted(each.artifacts)]
            assert await store.result(workload_id) == each.result


@cache
def template() -> Path:
    """An empty store's file, made once."""
    file = Path(tempfile.mkdtemp(prefix="placet-template-")) / "placet.db"
    migrate(f"sqlite:///{file}")
    return file


class TestStoreModel(StoreMachine.TestCase):
    settings = settings(max_examples=30, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
    pytestmark = pytest.mark.timeout(120)
