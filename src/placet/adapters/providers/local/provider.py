"""The local provider: this machine as a provider of compute, through its supervisor. It keeps no state of its own."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from placet.adapters import runner_documents as translate
from placet.adapters.pieces import read_file
from placet.adapters.providers.local import machine
from placet.adapters.providers.local.link import RUNNER, Link, Refused
from placet.adapters.providers.local.offers import RUNTIMES, make_offers
from placet.adapters.providers.local.options import LocalOptions
from placet.adapters.refusals import provider_error
from placet.domain.allocations import (
    ContractCard,
    ErrorKind,
    ErrorRule,
    FoundOutput,
    Handle,
    Launch,
    Listed,
    LogChunk,
    Naming,
    Observation,
    PermitRequest,
    PriceEcho,
    Tag,
)
from placet.domain.errors import InvalidRequest, OutcomeUnknown, Unavailable
from placet.domain.offers import Offer
from placet.ports.ambient import Clock
from placet.ports.provider import Hints
from placet.runner import causes
from placet.runner.launch import KEY_LENGTH_MAX

PAGE = 500
OBSERVE_AT_ONCE = 500
# Offers of unchanged capacity are the same values for this long, so that nothing is computed from them again.
OFFERS_FRESH_MS = 1000
PIECE_BYTES = 256 * 1024
# Of a refused start; in each case nothing was created.
ERROR_TABLE = (
    ErrorRule(status=None, kind=ErrorKind.NO_CAPACITY, marker=causes.REFUSED_NO_CAPACITY),
    ErrorRule(status=None, kind=ErrorKind.UNAVAILABLE, marker=causes.REFUSED_RETIRING),
    ErrorRule(status=None, kind=ErrorKind.UNAVAILABLE, marker=causes.REFUSED_FAULT),
    ErrorRule(status=None, kind=ErrorKind.INVALID_REQUEST),
)
PATH_FALLBACK = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class LocalProvider:
    """``Provider`` over one supervisor per folder, which outlives this process and serves several of them."""

    def __init__(self, options: LocalOptions, clock: Clock) -> None:
        self._clock = clock
        cores = options.cpu_cores if options.cpu_cores is not None else machine.cpu_cores()
        self._options = replace(
            options,
            cpu_cores=cores,
            memory_bytes=options.memory_bytes if options.memory_bytes is not None else machine.memory_bytes(),
            slots=options.slots if options.slots is not None else machine.slots(cores),
            python=options.python or machine.interpreter(),
        )
        self._devices = options.devices or ()
        self._hints: Hints | None = None
        self._capacity: dict[str, Any] | None = None
        self._known_ms = 0
        self._offers: tuple[Offer, ...] = ()
        self._offers_basis: tuple[dict[str, Any] | None, bool] = (None, False)
        self._offers_ms = 0
        self._greeting: dict[str, Any] = {}
        self._link = Link(options.folder, self._command(), options.call_limit_s, self._greet, self._hinted)

    @property
    def name(self) -> str:
        return self._options.name

    @property
    def card(self) -> ContractCard:
        return ContractCard(
            identity="unique_name",
            visibility_s=0.0,
            # A request may sit in the socket while the supervisor is busy; after its call limit it is not waited for.
            late_create_s=self._options.call_limit_s,
            bound_to_place=True,
            lists_completely=True,
            exit_code=True,
            restarts_by_itself=False,
            fence=True,
            forgets_after_s=None,
            billing_quantum_s=1,
            runtimes=RUNTIMES,
            log_streams=causes.STREAMS,
            notes=tuple(f"{name}: {value}" for name, value in self._greeting.get("mechanisms", {}).items()),
            naming=Naming(unique=True, checks_parameters=True, length_max=KEY_LENGTH_MAX, searchable=True),
            listed=Listed(paged=True, across_regions=False),
            states=tuple(translate.PHASES.items()),
            exit_code_reliable=True,
            error_table=ERROR_TABLE,
            price_echo=PriceEcho.CREATE_REPLY,
            outputs_are_files=True,
        )

    async def open(self, hints: Hints) -> None:
        self._hints = hints
        if not self._options.region:
            try:
                place = await asyncio.to_thread(machine.place, self._options.folder)
            except OSError as error:
                raise Unavailable(f"its folder cannot be used: {error}", provider=self.name) from error
            self._options = replace(self._options, region=place)
        if self._options.devices is None:
            self._devices = await asyncio.to_thread(machine.devices)
        await self._link.open()

    async def close(self) -> None:
        await self._link.close()

    def offers(self) -> Sequence[Offer]:
        if self._capacity is None:
            return ()
        live, now_ms = self._link.connected, self._clock.now_ms()
        basis = (self._capacity, live)
        if basis != self._offers_basis or now_ms - self._offers_ms >= OFFERS_FRESH_MS:
            self._offers_basis, self._offers_ms = basis, now_ms
            self._offers = make_offers(
                self._options,
                self._devices,
                self._capacity,
                region=self._options.region or "",
                disk_bytes=_free_disk_bytes(self._options.folder),
                observed_ms=now_ms if live else self._known_ms,
                live=live,
            )
        return self._offers

    async def submit(self, launch: Launch) -> Handle:
        document = translate.launch_document(launch, self._terms())
        try:
            answer = await self._link.call("start", launch=document)
        except Refused as refusal:
            kind = self.card.error_kind(0, refusal.code)
            unheard = not self.card.knows(0, refusal.code)
            raw = f"{refusal.code}: {refusal.detail}"
            raise provider_error(kind, refusal.detail, provider=self.name, raw=raw, unheard=unheard) from None
        return self._handle(answer)

    async def find(self, key: str) -> Sequence[Handle]:
        found = await self._look("observe", keys=[key])
        return [self._handle(document) for document in found["observations"] if document["phase"] != causes.GONE]

    def _handle(self, document: dict[str, Any]) -> Handle:
        options = self._options
        return translate.handle(document, self.name, options.region or "", options.price_usd_per_hour)

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        seen: list[Observation] = []
        for start in range(0, len(handles), OBSERVE_AT_ONCE):
            keys = [handle.key for handle in handles[start : start + OBSERVE_AT_ONCE]]
            answer = await self._look("observe", keys=keys)
            now_ms = self._clock.now_ms()
            seen += [translate.observation(document, self.name, now_ms) for document in answer["observations"]]
        return seen

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        await self._look("permit", key=request.key, nonce=request.tag.nonce, granted=granted, reason=reason)

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        await self._look("stop", key=handle.key, grace_s=grace_s)

    async def release(self, handle: Handle) -> bool:
        answer = await self._look("release", key=handle.key)
        return bool(answer["gone"])

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        async for document in self._owned(deployment):
            yield self._handle(document)

    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        answer = await self._look("observe", keys=[handle.key])
        account = (answer["observations"][0].get("logs") or {}).get(stream)
        if account is None or stream not in causes.STREAMS:
            return
        kept = int(account["bytes_kept"])
        path = self._options.folder / "attempts" / handle.key / "logs" / stream
        at = offset
        while at < kept:
            data = await asyncio.to_thread(_read_piece, str(path), at, min(PIECE_BYTES, kept - at))
            if not data:
                return
            yield LogChunk(stream=stream, offset=at, data=data)
            at += len(data)
        if account["sealed"]:
            total = int(account["bytes_total"])
            yield LogChunk(stream=stream, offset=total, data=b"", dropped=total - kept, final=True)

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        folder = self._options.folder / "attempts" / handle.key
        async for piece in read_file(folder, found.location, offset):
            yield piece

    async def retire(self) -> None:
        """Ask the supervisor to take nothing new and to leave when nothing lives."""
        await self._look("retire")

    def _terms(self) -> translate.Terms:
        options = self._options
        return translate.Terms(
            provider=self.name,
            log_bytes=options.log_bytes,
            sandbox=options.sandbox,
            hidden=tuple(map(str, options.hidden)),
            allowed_hosts=options.allowed_hosts,
        )

    def _command(self) -> tuple[str, ...]:
        options = self._options
        line = [str(options.python), "-I", "-S", str(RUNNER), f"--data={options.folder}"]
        line.append(f"--idle-exit-s={options.supervisor_idle_s}")
        if not options.use_groups:
            line.append("--no-groups")
        if not options.use_sandbox:
            line.append("--no-sandbox")
        return tuple(line)

    async def _greet(self, link: Link) -> None:
        options = self._options
        self._greeting = await link.greeting("hello", deployment="")
        environment = dict(os.environ)
        answer = await link.greeting(
            "configure",
            capacity={
                "slots": options.slots,
                "cpu_cores": float(options.cpu_cores or 1),
                "memory_bytes": options.memory_bytes,
                "gpus": [
                    {"index": each.index, "id": each.id, "model": each.model, "memory_bytes": each.memory_bytes}
                    for each in self._devices
                ],
            },
            path=options.path or environment.get("PATH") or PATH_FALLBACK,
            checkpoint_days=options.checkpoint_days,
            collect_limit_s=options.collect_limit_s,
            output_bytes=options.output_bytes,
            python=options.python,
            uv=options.uv or machine.uv(),
            build_env={**machine.build_environment(environment), **options.build_env},
        )
        self._take_capacity(answer["capacity"])
        # What changed while nobody listened is told now.
        listed = await link.greeting("observe")
        now_ms = self._clock.now_ms()
        if self._hints is not None:
            for document in listed["observations"]:
                self._hints.changed(translate.observation(document, self.name, now_ms))
            self._hints.capacity()

    def _hinted(self, document: dict[str, Any]) -> None:
        hints = self._hints
        if hints is None:
            return
        match document.get("hint"):
            case "permit_wanted":
                tag = Tag(
                    deployment=document["deployment"],
                    workload_id=document["workload_id"],
                    epoch=document["epoch"],
                    nonce=document["nonce"],
                )
                hints.permit_wanted(PermitRequest(key=document["key"], tag=tag))
            case "changed":
                hints.changed(translate.observation(document["observation"], self.name, self._clock.now_ms()))
            case "capacity":
                if self._take_capacity(document["capacity"]):
                    hints.capacity()
            case _:
                return  # a newer supervisor may hint at more; a hint is never needed

    def _take_capacity(self, capacity: dict[str, Any]) -> bool:
        """Keep it; true when something became free."""
        before, self._capacity = self._capacity, capacity
        self._known_ms = self._clock.now_ms()
        if before is None:
            return True
        numbers = ("slots_free", "cpu_cores_free", "memory_bytes_free")
        return any(capacity[name] > before[name] for name in numbers) or len(capacity["gpus_free"]) > len(
            before["gpus_free"]
        )

    async def _look(self, verb: str, **fields: object) -> dict[str, Any]:
        """A call that may be repeated: an unclear outcome is no more than unavailability."""
        try:
            return await self._link.call(verb, **fields)
        except OutcomeUnknown as error:
            raise Unavailable(str(error), provider=self.name) from error
        except Refused as refusal:
            raise InvalidRequest(refusal.detail, provider=self.name, raw=refusal.code) from None

    async def _owned(self, deployment: str) -> AsyncIterator[dict[str, Any]]:
        after, more = "", True
        while more:
            page = await self._look("owned", deployment=deployment, after=after, limit=PAGE)
            for document in page["observations"]:
                after = document["key"]
                yield document
            more = page["more"]


def _free_disk_bytes(folder: os.PathLike[str]) -> int | None:
    try:
        facts = os.statvfs(folder)
    except OSError:
        return None
    return facts.f_bavail * facts.f_frsize


def _read_piece(path: str, offset: int, length: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
