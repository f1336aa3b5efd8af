"""The power fails after each commit in turn: the engine goes on from a log that ends with the last flushed commit.

The provider is somewhere else and goes on meanwhile; it is its truth that tells whether anything was done twice.
"""

import asyncio
import hashlib
import os
import shutil
import sqlite3
from collections import Counter
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.store import SqlStore
from placet.adapters.store.sqlite import Sqlite, SqliteLink
from placet.domain.allocations import FoundOutput, Launch
from placet.domain.errors import StoreError
from placet.domain.failures import Cause
from placet.domain.spec import Output, Repeat, RetryPolicy, Spec
from placet.domain.states import WorkloadState
from placet.engine.reconcile import ReconcileOptions
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.waiting import wait_until_async
from tests.support.worlds import TENANT, ControlPlane, process, start

W = WorkloadState
# Every so many commits; 1 is every one of them.
EVERY = int(os.environ.get("SWEEP_EVERY", "4"))
COMMITS_MOST = 400
AT_A_TIME = 8
PATIENCE_S = 30
ANSWER_SHA256 = hashlib.sha256(b"42\n").hexdigest()
BRISK = ReconcileOptions(worker="w", owner_timeout_s=0.3, takeover_poll_s=0.05, beat_s=0.1, observe_every_s=0.1)
SECOND = replace(BRISK, worker="w2")


class PowerLink(SqliteLink):
    """A connection that ends for ever with one commit."""

    power: "Power"

    def commit(self) -> None:
        if self.power.gone:
            raise sqlite3.OperationalError("disk I/O error")
        super().commit()
        self.power.committed(flushed=self._flushes)
        if self.power.gone:
            raise sqlite3.OperationalError("disk I/O error")


class Power(Sqlite):
    """Fails with the commit of a number; what the disk then has is in ``copy``."""

    def __init__(self, path: Path, at: int, copy: Path) -> None:
        super().__init__(path)
        self.at = at
        self.copy = copy
        self.count = 0
        self.gone = False
        self.flushed_bytes = 0

    def connect(self, *, writes: bool) -> SqliteLink:
        link = super().connect(writes=writes)
        if writes:
            link.__class__ = PowerLink
            assert isinstance(link, PowerLink)
            link.power = self
        return link

    def committed(self, *, flushed: bool) -> None:
        self.count += 1
        log = Path(f"{self.path}-wal")
        if flushed or not self.flushed_bytes:
            self.flushed_bytes = log.stat().st_size
        if self.count == self.at:
            self.gone = True
            self.copy.mkdir()
            shutil.copyfile(self.path, self.copy / "placet.db")
            (self.copy / "placet.db-wal").write_bytes(log.read_bytes()[: self.flushed_bytes])


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A workload, what its program does, and how it must end after how many starts."""

    key: str
    spec: Spec
    script: Script
    state: W = W.SUCCEEDED
    starts: tuple[int, ...] = (1,)
    cancelled: bool = False


@dataclass(kw_only=True)
class Client:
    """Wants a few workloads and remembers what it was told, whoever serves."""

    wishes: tuple[Wish, ...]
    told: dict[str, str] = field(default_factory=dict)

    async def ask(self, plane: ControlPlane) -> None:
        """Submit what is not known to be accepted, cancel what is to be cancelled."""
        for wish in self.wishes:
            workload_id = await plane.submit(wish.spec, key=wish.key)
            assert self.told.setdefault(wish.key, workload_id) == workload_id, "a key stands for one workload"
            if wish.cancelled:
                assert await plane.intake.cancel(TENANT, workload_id, "test") is not None


def wishes(folder: Path) -> tuple[Wish, ...]:
    source = folder / "answer.txt"
    source.write_bytes(b"42\n")
    found = FoundOutput(name="answer", path="answer.txt", size_bytes=3, location=str(source), sha256=ANSWER_SHA256)
    answer = (Output(name="answer", path="answer.txt"),)
    twice = RetryPolicy(attempts=2, infrastructure_attempts=5, backoff_s=Decimal("0.01"))
    log = (("stdout", b"hello\n"),)
    return (
        Wish(key="works", spec=process("works", outputs=answer), script=Script(outputs=(found,), logs=log)),
        Wish(key="once", spec=process("once", repeat=Repeat.AT_MOST_ONCE), script=Script(logs=log)),
        Wish(
            key="fails",
            spec=process("fails", retry=twice),
            script=Script(cause=Cause.EXIT_CODE, exit_code=4),
            state=W.FAILED,
            starts=(2,),
        ),
        Wish(
            key="cancelled",
            spec=process("cancelled"),
            script=Script(hold=True),
            state=W.CANCELLED,
            starts=(0, 1),
            cancelled=True,
        ),
    )


async def life(folder: Path, at: int) -> bool:
    """One life with the power failing at a commit; false when it ended before that."""
    client = Client(wishes=wishes(folder))
    scripts = {wish.spec.runtime.command[0]: wish.script for wish in client.wishes}

    def script(launch: Launch) -> Script:
        return scripts[launch.spec.runtime.command[0]]

    provider = ScriptedProvider(SystemClock(), script)
    power = Power(folder / "data" / "placet.db", at, folder / "copy")
    plane = await start(
        "sqlite:///unused", folder, provider, options=BRISK, through=lambda _: SqlStore(power, readers=1)
    )
    try:
        try:
            await client.ask(plane)
            await wait_until_async(lambda: power.gone or all_final(plane, client), PATIENCE_S, "an end or a failure")
            await wait_until_async(
                lambda: power.gone or all_released(plane, client), PATIENCE_S, "the release of everything"
            )
        except StoreError:
            assert power.gone
    finally:
        await plane.kill()
    if power.gone:
        again = Power(folder / "copy" / "placet.db", -1, folder / "never")
        plane = await start(
            "sqlite:///unused", folder, provider, options=SECOND, through=lambda _: SqlStore(again, readers=1)
        )
        try:
            for workload_id in client.told.values():
                await plane.record(workload_id)  # what was acknowledged is there
            await client.ask(plane)
            await wait_until_async(lambda: all_final(plane, client), PATIENCE_S, "all to end")
            await check(plane, client, provider)
        finally:
            await plane.kill()
    return power.gone


async def all_final(plane: ControlPlane, client: Client) -> bool:
    if plane.loop.done():
        plane.loop.result()
    return all([(await plane.record(one)).workload.final for one in client.told.values()])


async def all_released(plane: ControlPlane, client: Client) -> bool:
    return all([(await plane.record(one)).workload.wake_ms is None for one in client.told.values()])


async def check(plane: ControlPlane, client: Client, provider: ScriptedProvider) -> None:
    starts = Counter(workload_id for workload_id, _ in provider.ran)
    assert max(Counter(provider.ran).values(), default=1) == 1, "an attempt was started twice"
    for wish in client.wishes:
        workload_id = client.told[wish.key]
        record = await plane.record(workload_id)
        assert record.workload.state is wish.state, f"{wish.key}: {record.workload}"
        assert starts[workload_id] in wish.starts, f"{wish.key}: {provider.ran}"
        assert await plane.queries.result(TENANT, workload_id) is not None
        if wish.spec.outputs:
            (artifact,) = await plane.store.artifacts(workload_id)
            assert artifact.size_bytes == 3
    assert starts.keys() <= set(client.told.values()), "something ran that nobody was told of"
    await wait_until_async(lambda: all_released(plane, client), PATIENCE_S, "the release of everything")
    assert all(held.released for held in provider.allocations.values())


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_power_fails_after_each_commit_in_turn(tmp_path: Path) -> None:
    """Several lives at a time, for most of a life is waiting; until one ends before its power fails."""

    async def one(at: int) -> bool:
        folder = tmp_path / str(at)
        folder.mkdir()
        try:
            return await life(folder, at)
        except AssertionError as error:
            raise AssertionError(f"power failed after commit {at}: {error}") from error

    for first in range(1, COMMITS_MOST, EVERY * AT_A_TIME):
        failed = await asyncio.gather(*(one(first + EVERY * number) for number in range(AT_A_TIME)))
        if not all(failed):
            assert any(failed) or first > 10, "there are more commits than that in such a life"
            return
    raise AssertionError("the life never ended")
