"""The Slurm provider: a batch system as a provider of compute, over its commands and a folder that its nodes share.

It keeps nothing that matters: what is true lies in the shared folder, the queue and the accounts.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from placet.adapters.providers.slurm import orders
from placet.adapters.providers.slurm.card import RUNTIMES, card
from placet.adapters.providers.slurm.commands import Commands
from placet.adapters.providers.slurm.examining import examine
from placet.adapters.providers.slurm.judging import Known, is_sufficient, judge
from placet.adapters.providers.slurm.offers import Row, make_offers, offer_id
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.adapters.providers.slurm.orders import Places
from placet.adapters.providers.slurm.site import Overdue, Site, Unreachable, own_uv
from placet.adapters.providers.slurm.words import Job
from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    LogChunk,
    Observation,
    PermitRequest,
    Phase,
    Tag,
)
from placet.domain.errors import InvalidRequest, NoCapacity, OutcomeUnknown, ProviderError, Unavailable
from placet.domain.offers import Offer
from placet.domain.spec import RuntimeKind
from placet.ports.ambient import Clock
from placet.ports.provider import Examined, Hints
from placet.runner import causes
from placet.runner.launch import Invalid, checked_key
from placet.runner.portable import bootstrap, drop
from placet.runner.portable.build import build

ASK_AGAIN_MS = 2000
TAG = "tag.json"
CLOSED_DAYS = 30
OFFERS_EVERY_S = 60.0
OFFERS_FRESH_MS = 60_000
WAITS_EVERY_S = 300.0
WAIT_MOST_S = 30 * 86_400
PIECE_BYTES = 256 * 1024
# Of the time between TERM and KILL, what is left to a program; the rest is for the record of its end.
GRACE_SHARE = 0.5
SECOND_MS = 1000
DAY_MS = 86_400 * SECOND_MS


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """The tag of one attempt as it lies in its folder."""

    key: str
    tag: Tag
    sent_ms: int


class SlurmProvider:
    """``Provider`` over one cluster. Several servers may share a folder."""

    def __init__(self, options: SlurmOptions, clock: Clock, site: Site) -> None:
        self._options = options
        self._clock = clock
        self._site = site
        self._places = Places(shared=options.shared)
        self._commands = Commands(site, options, time.monotonic)
        self._hints: Hints | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._locks: dict[str, asyncio.Lock] = {}
        self._rows: Mapping[str, Row] = {}
        self._offers: tuple[Offer, ...] = ()
        self._offers_at_s = -1e9
        self._waits_s: dict[str, float] = {}
        self._waits_at_s = -1e9
        self._asked_ms: dict[str, int] = {}
        self._told: dict[str, object] = {}
        self._lent: set[Path] = set()

    @property
    def name(self) -> str:
        return self._options.name

    @property
    def card(self) -> ContractCard:
        return card(self._options, self._commands, outputs_are_files=self._site.here)

    async def open(self, hints: Hints) -> None:
        try:
            await self._prepare()
        except (OSError, Unreachable, Overdue) as error:
            raise Unavailable(f"the shared folder cannot be used: {error}", provider=self.name) from error
        # A controller that is down keeps nobody from starting: its offers come when it does.
        with contextlib.suppress(Unavailable):
            await self._commands.greet()
            await self._look_at_offers()
        self._hints = hints
        self._watching = asyncio.create_task(self._watch(), name="slurm")

    async def close(self) -> None:
        watching, self._watching, self._hints = self._watching, None, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await self._site.close()

    def offers(self) -> Sequence[Offer]:
        return self._offers

    async def submit(self, launch: Launch) -> Handle:
        row = self._row(launch)
        async with self._locks.setdefault(launch.key, asyncio.Lock()):
            try:
                return await self._submit(launch, row)
            except (OSError, Unreachable, Overdue) as error:
                raise Unavailable(f"the shared folder cannot be used: {error}", provider=self.name) from error
            finally:
                self._stirred.set()
                self._locks.pop(launch.key, None)

    async def find(self, key: str) -> Sequence[Handle]:
        mark = await self._mark(key)
        jobs = await self._commands.named(key, mark.sent_ms if mark else self._forgotten_ms(), 0.0)
        if mark is None:
            jobs = [job for job in jobs if not job.over]
        return [self._handle(await self._chosen(key, jobs), mark)] if jobs else []

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        return [await self._observe(handle.key) for handle in handles]

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        document = {"nonce": request.tag.nonce, "granted": granted, "reason": reason}
        await self._put(request.key, drop.PERMIT, document)

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        if not await self._put(handle.key, drop.STOP, {"grace_s": grace_s}):
            await self._bar(handle.key)
        await self._commands.cancel(self._plain(handle.key), waiting_only=True)
        self._stirred.set()

    async def release(self, handle: Handle) -> bool:
        key = self._plain(handle.key)
        await self._bar(key)
        mark = await self._mark(key)
        since_ms = mark.sent_ms if mark else self._forgotten_ms()
        if any(not job.over for job in await self._commands.named(key, since_ms, 0.0)):
            await self._put(key, drop.STOP, {"grace_s": 0.0})
            await self._commands.cancel(key, waiting_only=False)
            if any(not job.over for job in await self._commands.named(key, since_ms, 0.0)):
                return False
        self._told.pop(key, None)
        return await self._file(self._site.remove(self._places.attempt(key)))

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        marks = await self._marks()
        queue = await self._commands.queue(0.0)
        mine = {key: mark for key, mark in marks.items() if mark.tag.deployment == deployment}
        comment = orders.comment(deployment)
        jobs: dict[str, list[Job]] = {}
        for job in queue:
            if job.name in mine or (job.comment == comment and not job.over and job.name not in marks):
                jobs.setdefault(job.name, []).append(job)
        for key in sorted({*mine, *jobs}):
            found = jobs.get(key, [])
            yield self._handle(await self._chosen(key, found) if found else None, mine.get(key), key)

    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        status = orders.read_document(await self._read(handle.key, drop.STATUS))
        account = (_object(status, "logs") or {}).get(stream)
        if stream not in causes.STREAMS or not isinstance(account, dict):
            return
        path = self._places.attempt(self._plain(handle.key)) / drop.RUN / "logs" / stream
        sealed = bool(account["sealed"])
        kept = int(account["bytes_kept"])
        at = offset
        while not sealed or at < kept:
            # A file grows before its account tells so.
            length = min(PIECE_BYTES, kept - at) if sealed else PIECE_BYTES
            try:
                data = await self._file(self._site.piece(path, at, length))
            except FileNotFoundError:
                break  # it appears with its first byte
            if not data:
                break
            yield LogChunk(stream=stream, offset=at, data=data)
            at += len(data)
        if sealed and at >= kept:
            total = int(account["bytes_total"])
            yield LogChunk(stream=stream, offset=total, data=b"", dropped=total - kept, final=True)

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        """The bytes of one collected file from an offset on."""
        path = self._collected(handle.key, found.location)
        if path is None:
            raise FileNotFoundError(f"{found.location} is no output of {handle.key}")
        at = offset
        while data := await self._file(self._site.piece(path, at, PIECE_BYTES)):
            at += len(data)
            yield data

    async def examine(self) -> Sequence[Examined]:
        """All that the cluster needs (``ports.provider.Examining``)."""
        try:
            return await examine(self._site, self._commands, self._options)
        finally:
            await self._site.close()

    # Sending.

    async def _submit(self, launch: Launch, row: Row) -> Handle:
        key = self._plain(launch.key)
        folder = self._places.attempt(key)
        if await self._site.read(self._places.closed / key) is not None:
            raise InvalidRequest("this key was stopped or released before", provider=self.name)
        if not await self._site.make_folder(folder):
            known = await self._sent_before(launch)
            if known is not None:
                return known
        try:
            await self._write_order(launch, folder)
            script = self._script(folder)
            job = await self._commands.send(orders.command(launch, self._options, row, folder), script)
        except OutcomeUnknown:
            raise
        except (ProviderError, OSError, ValueError):
            # Nothing was made: the name is free again.
            await self._site.remove(folder)
            raise
        now_ms = self._clock.now_ms()
        return Handle(
            provider=self.name,
            key=key,
            native_id=job,
            created_ms=now_ms,
            place=self._region,
            nonce=launch.tag.nonce,
        )

    async def _sent_before(self, launch: Launch) -> Handle | None:
        """What was made of an earlier request of the same key; ``None`` when it is sure that nothing was."""
        mark = await self._mark(launch.key)
        if mark is None:
            raise OutcomeUnknown("another server is sending the same", provider=self.name)
        if mark.tag.nonce != launch.tag.nonce:
            raise InvalidRequest("another attempt bears this name", provider=self.name)
        found = await self.find(launch.key)
        if found:
            return found[0]
        if self._clock.now_ms() - mark.sent_ms < self._options.visibility_s * SECOND_MS:
            raise OutcomeUnknown("it was sent before, and is not listed yet", provider=self.name)
        return None

    async def _write_order(self, launch: Launch, folder: Path) -> None:
        grace_s, uv = self._commands.kill_wait_s * GRACE_SHARE, await self._uv(launch)
        order = orders.order_document(launch, self._options, self._places, grace_s, uv)
        await self._site.write(folder / TAG, orders.tag_document(launch, self._clock.now_ms()))
        for name, source in orders.to_bring(launch, self._options):
            try:
                await self._site.bring(source, folder / "brought" / name)
            except FileNotFoundError as error:
                raise InvalidRequest(f"it is not there: {source}", provider=self.name) from error
        if launch.secrets:
            await self._site.write(folder / drop.SECRETS, orders.secrets_document(launch))
            await self._site.write(folder / drop.SECRETS_PLAIN, orders.plain_secrets(launch))
        await self._site.write(folder / bootstrap.PLAIN, orders.plain_order(order))
        await self._site.write(folder / drop.ORDER, order)

    async def _uv(self, launch: Launch) -> str:
        """Where the nodes find ``uv``: as set, else the one of this machine is lent to them. Empty without need."""
        if self._options.uv or not launch.spec.runtime.requirements:
            return self._options.uv
        here = await asyncio.to_thread(own_uv)
        if here is None:
            return ""
        there = self._places.programs / f"uv-{here[1]}"
        if there not in self._lent:
            if not await self._site.is_file(there):
                await self._site.bring(here[0], there)
            self._lent.add(there)
        return str(there)

    def _script(self, folder: Path) -> bytes:
        return orders.script(self._options, *self._programs(), folder)

    def _programs(self) -> tuple[Path, Path]:
        return self._places.programs / "bootstrap.sh", self._places.programs / f"runner-{build().sha256[:16]}.pyz"

    async def _prepare(self) -> None:
        first, runner = self._programs()
        for folder in (self._places.attempts, self._places.closed, self._places.programs):
            await self._site.make_folder(folder)
        await self._site.write(first, bootstrap.TEXT.encode())
        if await self._site.read(runner) != build().data:
            await self._site.write(runner, build().data)
        # Names are not given twice; after this long nobody sends one late either.
        old = ["find", str(self._places.closed), "-type", "f", "-mtime", f"+{CLOSED_DAYS}", "-delete"]
        await self._site.run(old, limit_s=self._options.call_limit_s)

    def _row(self, launch: Launch) -> Row:
        row = self._rows.get(launch.offer.id)
        if row is None:
            raise InvalidRequest(f"the cluster has no {launch.offer.id!r}", provider=self.name)
        if launch.spec.runtime.kind is RuntimeKind.CONTAINER:
            raise InvalidRequest("this cluster runs no containers: no runtime for them is set", provider=self.name)
        short = orders.shortfall(launch, row)
        if short:
            raise NoCapacity(f"no node of {row.partition.name} is so large: {short}", provider=self.name)
        limit_s = orders.run_limit_s(launch, self._options)
        if limit_s is not None and row.limit_s is not None and limit_s > row.limit_s:
            told = (
                f"{row.partition.name} runs nothing for longer than {row.limit_s:g} s, and {limit_s:g} s are asked for"
            )
            raise NoCapacity(told, provider=self.name)
        return row

    # Looking.

    async def _observe(self, key: str) -> Observation:
        key = self._plain(key)
        words = await self._words(key)
        mark, status = _mark_of(words.get(TAG)), orders.read_document(words.get(drop.STATUS))
        sent_ms = mark.sent_ms if mark else self._forgotten_ms()
        asked_ms = self._clock.now_ms()
        jobs: Sequence[Job] = []
        # The last word of a runner needs no other, and the cluster is not asked for what cannot change any more.
        if not is_sufficient(status):
            jobs = await self._commands.named(key, sent_ms)
            words = await self._words(key)
            status = orders.read_document(words.get(drop.STATUS))
        known = Known(
            key=key,
            provider=self.name,
            looked_ms=asked_ms,
            sent_ms=sent_ms,
            job=await self._chosen(key, jobs) if jobs else None,
            status=self._checked(key, status),
            folder=mark is not None and TAG in words,
            stopped=drop.STOP in words,
            accounting=self._commands.accounting,
            settle_ms=round(self._options.settle_s * SECOND_MS),
            visible_ms=round(self._options.visibility_s * SECOND_MS),
        )
        try:
            return judge(known)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # The program could write this file too. While its job lives, nothing follows; then the job counts alone.
            without = judge(replace(known, status=None))
            if known.job is not None and known.job.over:
                return without
            unreadable = f"its status cannot be read: {type(error).__name__}: {error}"
            return replace(without, phase=Phase.UNKNOWN, cause=None, message=unreadable)

    async def _words(self, key: str) -> Mapping[str, bytes]:
        """What lies in its folder, read in one go."""
        return await self._file(self._site.read_some(self._places.attempt(key), (TAG, drop.STATUS, drop.STOP)))

    async def _chosen(self, key: str, jobs: Sequence[Job]) -> Job:
        """Of several jobs of one name the one whose runner holds the claim, else the first."""
        if len(jobs) > 1:
            claim = orders.read_document(await self._read(key, drop.CLAIM)) or {}
            reported = _object(claim, "reported") or {}
            for job in jobs:
                if reported.get(orders.JOB_ID) == job.id:
                    return job
            return next((job for job in jobs if not job.over), jobs[0])
        return jobs[0]

    def _checked(self, key: str, status: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Without outputs that lie anywhere but where the runner collects; the program could write this file too."""
        if status is None or not isinstance(status.get("outputs"), list):
            return status
        outputs = [each for each in status["outputs"] if self._collected(key, str(each.get("file"))) is not None]
        return {**status, "outputs": outputs}

    def _collected(self, key: str, location: str) -> Path | None:
        path = Path(location)
        folder = self._places.attempt(self._plain(key)) / drop.RUN / "collected"
        return path if path.parent == folder and path.name.isdigit() else None

    def _handle(self, job: Job | None, mark: _Mark | None, key: str = "") -> Handle:
        return Handle(
            provider=self.name,
            key=job.name if job else mark.key if mark else key,
            native_id=job.id if job else "",
            created_ms=(job.submit_ms if job else 0) or (mark.sent_ms if mark else 0),
            place=self._region,
            nonce=mark.tag.nonce if mark else "",
        )

    async def _mark(self, key: str) -> _Mark | None:
        return _mark_of(await self._read(key, TAG))

    async def _marks(self) -> dict[str, _Mark]:
        found = await self._file(self._site.read_each(self._places.attempts, TAG))
        marks = {key: _mark_of(data) for key, data in found.items()}
        return {key: mark for key, mark in marks.items() if mark is not None and mark.key == key}

    @property
    def _region(self) -> str:
        return self._options.region or self._commands.cluster or self.name

    def _forgotten_ms(self) -> int:
        return self._clock.now_ms() - self._options.remembered_days * DAY_MS

    # Hints: what the cluster would not tell by itself.

    async def _watch(self) -> None:
        looked_s = -1e9
        while True:
            self._stirred.clear()
            now_s = time.monotonic()
            try:
                whole = now_s - looked_s >= self._options.poll_s
                await self._hint(whole)
                if whole:
                    looked_s = now_s
                await self._look_at_offers()
            except (ProviderError, FileNotFoundError):
                pass  # the engine looks by itself, and is told so; a folder may go while it is read
            await self._rest()

    async def _hint(self, whole: bool) -> None:
        """Tell what changed since the last time: of the runners' words each time, of the queue now and then."""
        hints = self._hints
        statuses = await self._file(self._site.read_each(self._places.attempts, drop.STATUS))
        queue = {job.name: job for job in await self._commands.queue()} if whole else {}
        for key in {*statuses, *queue}:
            status = orders.read_document(statuses.get(key))
            if hints is None or (status is None and key not in queue):
                continue
            if status is not None and status.get("phase") == causes.ACCEPTED:
                await self._ask(key, hints)
            state = (status or {}).get("sequence"), (status or {}).get("phase")
            before = self._told.get(key)
            job = queue.get(key)
            word = (state, job.state if job else before[1] if isinstance(before, tuple) else None)
            if before == word or (status is None and await self._mark(key) is None):
                continue
            self._told[key] = word
            hints.changed(await self._observe(key))
        if whole:
            self._told = {key: word for key, word in self._told.items() if key in statuses or key in queue}

    async def _ask(self, key: str, hints: Hints) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._asked_ms.get(key, 0) < ASK_AGAIN_MS:
            return
        mark = await self._mark(key)
        if mark is not None:
            self._asked_ms[key] = now_ms
            hints.permit_wanted(PermitRequest(key=key, tag=mark.tag))

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._options.watch_s):
                await self._stirred.wait()
        except TimeoutError:
            return

    async def _look_at_offers(self) -> None:
        now_s = time.monotonic()
        if now_s - self._offers_at_s < OFFERS_EVERY_S:
            return
        await self._commands.greet()
        found = await self._commands.rows()
        self._offers_at_s = now_s
        if now_s - self._waits_at_s >= WAITS_EVERY_S:
            self._waits_at_s = now_s
            self._waits_s = {offer_id(row, self._options): wait for row in found if (wait := await self._wait_s(row))}
        self._rows = {offer_id(row, self._options): row for row in found}
        self._offers = make_offers(
            found,
            self._options,
            region=self._region,
            runtimes=RUNTIMES,
            waits_s=self._waits_s,
            observed_ms=self._clock.now_ms(),
        )

    async def _wait_s(self, row: Row) -> float | None:
        """How long a small job would wait there, says the scheduler; asked only where nothing is free."""
        if row.room:
            return None
        expected_ms = await self._commands.expected_ms(orders.probe(self._options, row), b"#!/bin/sh\ntrue\n")
        wait_s = None if expected_ms is None else (expected_ms - self._clock.now_ms()) / SECOND_MS
        return wait_s if wait_s is not None and 0 <= wait_s <= WAIT_MOST_S else None

    # The shared folder.

    def _plain(self, key: str) -> str:
        try:
            return checked_key(key)
        except Invalid as error:
            raise InvalidRequest(str(error), provider=self.name) from None

    async def _read(self, key: str, name: str) -> bytes | None:
        return await self._file(self._site.read(self._places.attempt(self._plain(key)) / name))

    async def _put(self, key: str, name: str, document: Mapping[str, object]) -> bool:
        """Write a word to the runner; false when there is none that could read it."""
        folder = self._places.attempt(self._plain(key))
        if await self._mark(key) is None:
            return False
        try:
            await self._file(self._site.write(folder / name, json.dumps(document).encode() + b"\n"))
        except FileNotFoundError:
            return False
        return True

    async def _bar(self, key: str) -> None:
        """From now on nothing is started under this key."""
        await self._file(self._site.write(self._places.closed / self._plain(key), b"\n"))

    async def _file(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except FileNotFoundError:
            raise
        except (OSError, Unreachable, Overdue) as error:
            raise Unavailable(f"the shared folder cannot be used: {error}", provider=self.name) from error


def _object(document: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    value = (document or {}).get(name)
    return value if isinstance(value, dict) else None


def _mark_of(data: bytes | None) -> _Mark | None:
    document = orders.read_document(data)
    if document is None:
        return None
    try:
        tag = Tag(
            deployment=str(document["deployment"]),
            workload_id=str(document["workload_id"]),
            epoch=int(str(document["epoch"])),
            nonce=str(document["nonce"]),
        )
        return _Mark(key=str(document["key"]), tag=tag, sent_ms=int(str(document["sent_ms"])))
    except (KeyError, ValueError):
        return None
