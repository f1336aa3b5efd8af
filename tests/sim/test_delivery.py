"""What was computed and cannot be delivered is kept, tried again and told as two facts; collection can be stopped."""

import hashlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.artifacts.files import FileArtifacts
from placet.domain.account import Advice, Question, Truth
from placet.domain.allocations import FoundOutput, Handle
from placet.domain.errors import Unavailable
from placet.domain.failures import Cause
from placet.domain.records import EventKind, Record
from placet.domain.spec import Constraints, Output, Spec
from placet.domain.states import AttemptState, DeliveryState, WorkloadState
from placet.engine import delivering, draft
from placet.engine.effects import Effects
from placet.engine.redelivering import NotDelivered, NothingToDeliver, Redelivered, Redelivering
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.missing import missing
from tests.support.worlds import TENANT, ControlPlane, always, control_plane, process

W, A = WorkloadState, AttemptState
SIZE = 64 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for nothing."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        missing("only root may mount a small disk")
    try:
        subprocess.run(["dd", "if=/dev/zero", f"of={disk / 'filler'}", "bs=4k"], check=False, capture_output=True)
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def computed(tmp_path: Path) -> FoundOutput:
    """An output that an attempt left."""
    file = tmp_path / "o"
    file.write_bytes(b"x" * SIZE)
    digest = hashlib.sha256(b"x" * SIZE).hexdigest()
    return FoundOutput(name="o", path="o", size_bytes=SIZE, sha256=digest, location=str(file))


def with_output(**fields: object) -> Spec:
    return process(outputs=(Output(name="o", path="o"),), **fields)


async def until_waiting(plane: ControlPlane, workload_id: str) -> Record:
    def holds(record: Record) -> bool:
        return record.workload.state is W.DELIVERING and "No space left" in record.workload.reason

    return await plane.until(workload_id, holds, "the delivery waits for space")


async def test_a_full_disk_delays_the_delivery(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "AGAIN_MS", 50)
    found = computed(tmp_path)
    artifacts = FileArtifacts(small_disk / "artifacts")
    async with control_plane(tmp_path, always(Script(outputs=(found,))), artifacts=artifacts) as plane:
        workload_id = await plane.submit(with_output())
        record = await until_waiting(plane, workload_id)
        assert record.workload.compute_done
        assert not plane.provider.allocations[record.attempts[0].key].released
        (small_disk / "filler").unlink()
        record = await plane.finished(workload_id)
        assert record.workload.state is W.SUCCEEDED
        assert record.workload.delivery is DeliveryState.COMPLETE


async def test_what_finds_no_room_to_the_end_is_kept(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "AGAIN_MS", 20)
    monkeypatch.setattr(delivering, "WAIT_MS", 100)
    artifacts = FileArtifacts(small_disk / "artifacts")
    found = computed(tmp_path)
    async with control_plane(tmp_path, always(Script(outputs=(found,))), artifacts=artifacts) as plane:
        workload_id = await plane.submit(with_output())
        record = await plane.finished(workload_id)
        workload = record.workload
        assert (workload.state, workload.compute_done, workload.delivery) == (W.FAILED, True, DeliveryState.MISSING)
        assert workload.failure is not None
        assert workload.failure.cause is Cause.DELIVERY
        assert found.location in workload.failure.message
        assert record.attempts[0].released_ms is None
        assert workload.lease.owner is None, "no server stays for it"
        assert workload.wake_ms == (workload.finished_ms or 0) + draft.UNDELIVERED_KEPT_MS
        assert not plane.provider.allocations[record.attempts[0].key].released


async def test_a_cancel_ends_the_wait_for_room(tmp_path: Path, small_disk: Path) -> None:
    artifacts = FileArtifacts(small_disk / "artifacts")
    script = Script(outputs=(computed(tmp_path),))
    async with control_plane(tmp_path, always(script), artifacts=artifacts) as plane:
        workload_id = await plane.submit(with_output())
        await until_waiting(plane, workload_id)
        await plane.intake.cancel(TENANT, workload_id, actor="test")
        record = await plane.finished(workload_id)
        assert record.workload.state is W.CANCELLED
        assert record.workload.compute_done


async def test_what_was_kept_long_enough_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "UNDELIVERED_KEPT_MS", 300)
    async with control_plane(tmp_path, always(Script(missing=("o",), problem="no space left"))) as plane:
        workload_id = await plane.submit(with_output())
        record = await plane.finished(workload_id)
        assert record.workload.failure is not None
        assert record.workload.failure.cause is Cause.DELIVERY
        assert record.workload.failure.message == "no space left"
        record = await plane.until(workload_id, lambda record: record.attempts[0].released_ms is not None, "released")
        assert (record.attempts[0].released_ms or 0) >= (record.workload.finished_ms or 0) + 300


@pytest.mark.parametrize("exit_code", [0, 1])
async def test_a_cancel_stops_the_collection(tmp_path: Path, exit_code: int) -> None:
    script = Script(hold_outputs=True, exit_code=exit_code, cause=Cause.EXIT_CODE if exit_code else None)
    async with control_plane(tmp_path, always(script)) as plane:
        workload_id = await plane.submit(with_output())
        state = W.RUNNING if exit_code else W.DELIVERING
        record = await plane.until(workload_id, lambda record: record.workload.state is state, "collecting")
        assert record.attempts[0].state is A.EXITED
        assert record.workload.compute_done is (exit_code == 0)
        told = await plane.queries.account(TENANT, workload_id)
        assert told is not None
        answer = next(answer for answer in told.answers if answer.question is Question.SAFE_TO_RETRY)
        assert answer.answer is Truth.NO
        assert "its program has ended" in answer.why
        assert "second copy" not in answer.why
        await plane.intake.cancel(TENANT, workload_id, actor="test")
        record = await plane.finished(workload_id)
        assert record.workload.state is W.CANCELLED
        assert record.workload.compute_done is (exit_code == 0)
        assert record.attempts[0].state is A.COLLECTED
        assert record.attempts[0].exit_code == exit_code


async def test_a_deadline_stops_the_collection_and_keeps_what_was_computed(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(hold_outputs=True))) as plane:
        deadline_ms = SystemClock().now_ms() + 500
        workload_id = await plane.submit(with_output(constraints=replace(Constraints(), deadline_ms=deadline_ms)))
        record = await plane.finished(workload_id)
        assert record.workload.state is W.EXPIRED
        assert record.workload.compute_done
        assert record.attempts[0].released_ms is None


async def test_a_collection_that_ends_is_delivered(tmp_path: Path) -> None:
    async with control_plane(tmp_path, always(Script(hold_outputs=True, outputs=(computed(tmp_path),)))) as plane:
        workload_id = await plane.submit(with_output())
        record = await plane.until(workload_id, lambda record: record.workload.state is W.DELIVERING, "collecting")
        plane.provider.let_go(record.attempts[0].key)
        record = await plane.finished(workload_id)
        assert record.workload.state is W.SUCCEEDED
        moves = [event.to_state for event in await plane.store.events(workload_id) if event.kind is EventKind.MOVED]
        assert moves[-2:] == [W.DELIVERING, W.SUCCEEDED]


async def test_what_was_kept_is_delivered_later_and_nothing_is_run_again(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "AGAIN_MS", 20)
    monkeypatch.setattr(delivering, "WAIT_MS", 100)
    artifacts = FileArtifacts(small_disk / "artifacts")
    async with control_plane(tmp_path, always(Script(outputs=(computed(tmp_path),))), artifacts=artifacts) as plane:
        providers = {plane.provider.name: plane.provider}
        effects = Effects(providers, artifacts, SystemClock())
        redelivering = Redelivering(plane.store, SystemClock(), effects, providers, plane.reconciler.touched)
        workload_id = await plane.submit(with_output())
        early = await redelivering.redeliver(TENANT, workload_id, "token:1")
        assert isinstance(early, NothingToDeliver)
        result = (await plane.finished(workload_id)).workload
        document = await plane.store.result(workload_id)
        told = await plane.queries.account(TENANT, workload_id)
        assert told is not None
        assert told.advice is Advice.REDELIVER
        still = await redelivering.redeliver(TENANT, workload_id, "token:1")
        assert isinstance(still, NotDelivered)
        assert "No space left" in still.problem
        (small_disk / "filler").unlink()
        done = await redelivering.redeliver(TENANT, workload_id, "token:1")
        assert isinstance(done, Redelivered)
        assert (done.changed, [artifact.path for artifact in done.artifacts]) == (True, ["o"])
        assert list(await plane.store.artifacts(workload_id)) == list(done.artifacts)
        record = await plane.until(workload_id, lambda record: record.attempts[0].released_ms is not None, "released")
        assert (record.workload.state, record.workload.failure) == (W.FAILED, result.failure), "no verdict changes"
        assert record.workload.delivery is DeliveryState.COMPLETE
        assert await plane.store.result(workload_id) == document
        told = await plane.queries.account(TENANT, workload_id)
        assert told is not None
        answers = {answer.question: answer.answer for answer in told.answers}
        assert answers[Question.COMPUTED_NOT_DELIVERED] is Truth.NO
        again = await redelivering.redeliver(TENANT, workload_id, "token:1")
        assert isinstance(again, Redelivered)
        assert not again.changed
        assert await redelivering.redeliver("somebody else", workload_id, "token:2") is None
        assert plane.provider.ran == [(workload_id, 1)]


class Remote(ScriptedProvider):
    """What it collected is no file of this machine: it must be read through it, and fails as told."""

    fails: ClassVar[list[Exception]] = []
    reads = 0

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        self.reads += 1
        async for piece in super().read_output(handle, found, offset):
            yield piece[: SIZE // 2]
            if self.fails:
                raise self.fails.pop()
            yield piece[SIZE // 2 :]


def remote(script: Script, *fails: Exception) -> Remote:
    provider = Remote(SystemClock(), always(script))
    provider.card = replace(provider.card, outputs_are_files=False)
    provider.fails = list(fails)
    return provider


async def test_outputs_elsewhere_are_read_through_their_provider_and_a_break_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "AGAIN_MS", 20)
    provider = remote(Script(outputs=(computed(tmp_path),)), Unavailable("the connection broke"))
    async with control_plane(tmp_path, always(Script()), provider=provider) as plane:
        workload_id = await plane.submit(with_output())
        record = await plane.finished(workload_id)
        assert (record.workload.state, record.workload.delivery) == (W.SUCCEEDED, DeliveryState.COMPLETE)
        assert provider.reads == 2
        (artifact,) = await plane.store.artifacts(workload_id)
        data = b"".join([piece async for piece in FileArtifacts(tmp_path / "artifacts").read(artifact.location)])
        assert hashlib.sha256(data).hexdigest() == artifact.sha256


async def test_bytes_that_are_not_what_was_announced_are_not_delivered(tmp_path: Path) -> None:
    found = replace(computed(tmp_path), sha256="0" * 64)
    async with control_plane(tmp_path, always(Script()), provider=remote(Script(outputs=(found,)))) as plane:
        workload_id = await plane.submit(with_output())
        record = await plane.finished(workload_id)
        assert (record.workload.state, record.workload.compute_done) == (W.FAILED, True)
        assert record.workload.failure is not None
        assert record.workload.failure.cause is Cause.DELIVERY
        assert "not those that were announced" in record.workload.failure.message
        kept = [file for file in (tmp_path / "artifacts").rglob("*") if file.is_file()]
        assert kept == [], "nothing half or wrong is kept"
