"""A container engine as a provider: the verbs of the port over the Engine API. What it knows is kept at the engine."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from placet.adapters.providers.container import collecting, logs, names, offers, request, translate
from placet.adapters.providers.container.api import EngineApi, NotSent, Refused, Unheard, named
from placet.adapters.providers.container.ending import Ending
from placet.adapters.providers.container.hiding import Hiding, NothingToHideBy
from placet.adapters.providers.container.images import Images
from placet.adapters.providers.container.living import Living
from placet.adapters.providers.container.marks import Marks
from placet.adapters.providers.container.options import ContainerOptions
from placet.adapters.providers.container.preparing import YOUNG_MS, Preparing
from placet.adapters.providers.container.tidying import EVERY_MS, tidy
from placet.adapters.providers.container.watching import TROUBLE, Watching, labels_of
from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    LogChunk,
    Observation,
    PermitRequest,
    Phase,
)
from placet.domain.errors import InvalidRequest, NoCapacity, OutcomeUnknown, ProviderError, Unavailable
from placet.domain.failures import Cause
from placet.domain.offers import Offer
from placet.domain.units import SECOND_MS
from placet.ports.ambient import Clock
from placet.ports.provider import Hints

Json = dict[str, Any]
Answer = TypeVar("Answer")

ASK_AGAIN_MS = 2000
LOOKS_AT_ONCE = 16
SKEW_MIN_MS = 1500
STOP_LIMIT_S = 86_400.0


class ContainerProvider:
    """``Provider`` over one engine, which several servers may use at a time."""

    def __init__(self, options: ContainerOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._api = EngineApi(options.address, options.call_limit_s)
        self._marks = Marks(self._api)
        self._images = Images(self._api, options.pull_silence_s)
        self._preparing = Preparing(self._api, self._images, self._marks, options)
        self._ending = Ending(self._api, options)
        self._watching = Watching(self._api, self._hello, self._looked, self._lost)
        self._living = Living()
        self._hiding = Hiding(self._api)
        self._hints: Hints | None = None
        self._capacity: offers.Capacity | None = None
        self._heard_ms = 0
        self._live = False
        self._offset_ms = 0
        self._region = options.region or ""
        self._notes: tuple[str, ...] = ()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked_ms: dict[str, int] = {}
        self._told: dict[str, str] = {}
        self._tidied_ms = 0
        self._submitting = asyncio.Lock()

    @property
    def name(self) -> str:
        return self._options.name

    @property
    def card(self) -> ContractCard:
        return translate.card(self._options, self._notes)

    async def open(self, hints: Hints) -> None:
        """An engine that does not answer now is waited for: it has no offers until then."""
        try:
            self._api.open()
        except (OSError, ValueError) as error:
            raise Unavailable(f"its engine cannot be used: {error}", provider=self.name) from error
        self._hints = hints
        try:
            await self._hello()
        except TROUBLE as error:
            self._lost(error)
        self._watching.start()

    async def close(self) -> None:
        self._hints = None
        await self._watching.close()
        await self._ending.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._api.close()

    def offers(self) -> Sequence[Offer]:
        if self._capacity is None:
            return ()
        return offers.make_offers(
            self._options,
            self._capacity,
            offers.left(self._capacity, self._living.values()),
            region=self._region,
            observed_ms=self._clock.now_ms() if self._live else self._heard_ms,
            live=self._live,
        )

    async def submit(self, launch: Launch) -> Handle:
        async with self._submitting:  # what is free is counted and taken in one go
            known, labels, document = await self._accepted(launch)
        try:
            kept = (known is None or await self._unfinished(launch.key)) and await self._preparing.keep(
                document, labels
            )
            if not await self._may_stay(launch.key, labels):
                raise InvalidRequest("it was stopped or released before it came", provider=self.name)
        except (Refused, NotSent, Unheard) as error:
            # The name is there already, so something has been made in any case.
            raise OutcomeUnknown(f"the engine did not answer as expected: {error}", provider=self.name) from error
        self._living.add(labels)
        if kept:  # else somebody else does so, or it is found by the next look
            self._prepare(launch.key, document, labels)
        return names.handle(labels, self.name, self._region)

    async def find(self, key: str) -> Sequence[Handle]:
        known = await self._ask(self._marks.known(key))
        if known.attempt is None or names.Mark.GONE in known.marks:
            return []
        return [names.handle(known.attempt, self.name, self._region)]

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        turns = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def one(key: str) -> Observation:
            async with turns:
                return await self._ask(self._observe(key))

        return await asyncio.gather(*(one(handle.key) for handle in handles))

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        await self._ask(self._permit(request, granted, reason))

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        await self._ask(self._cancel(handle.key, grace_s))

    async def release(self, handle: Handle) -> bool:
        return await self._ask(self._release(handle.key))

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        wanted = (f"{names.DEPLOYMENT}={deployment}", f"{names.KIND}={names.Kind.ATTEMPT.value}")
        for labels in await self._ask(self._marks.listed(*wanted)):
            yield names.handle(labels, self.name, self._region)

    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        if stream not in translate.STREAMS:
            return
        container = await self._ask(self._inspect(handle.key))
        if container is None:
            return
        sealed = container["State"].get("Status") in translate.OVER
        at = 0
        try:
            async for data in self._written(handle.key, stream, sealed):
                wanted, start = data[max(offset - at, 0) :], max(at, offset)
                at += len(data)
                if wanted:
                    yield LogChunk(stream=stream, offset=start, data=wanted)
        except NothingToHideBy:
            raise Unavailable("what is secret in its log cannot be looked up", provider=self.name) from None
        except (*TROUBLE, logs.NotFrames) as error:
            raise translate.failed_call(error, self._options) from error
        if sealed:
            yield LogChunk(stream=stream, offset=max(at, offset), data=b"", final=True)

    async def _written(self, key: str, stream: str, ended: bool) -> AsyncIterator[bytes]:
        """All of a stream, secrets hidden. While it grows, what may be the beginning of one is not yet shown."""
        masked = await self._hiding.masked(key)
        async for data in logs.read(self._api, key, stream):
            yield data if masked is None else masked.feed(data)
        if masked is not None and ended:
            yield masked.end()

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        try:
            async for piece in collecting.read(self._api, handle.key, found.location, offset):
                yield piece
        except TROUBLE as error:
            raise translate.failed_call(error, self._options) from error

    # What the verbs are made of.

    async def _ask(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """A call that may be repeated."""
        try:
            return await call
        except (*TROUBLE, logs.NotFrames) as error:
            if isinstance(error, NotSent | Unheard):
                self._lost(error)
            raise translate.failed_call(error, self._options) from error

    async def _accepted(self, launch: Launch) -> tuple[names.Known | None, Mapping[str, str], Json]:
        """Give it its name. Raises for what cannot be, and for a name that bears something else."""
        try:
            known = await self._marks.known(launch.key)
        except TROUBLE as error:
            raise Unavailable(f"the engine cannot be asked: {error}", provider=self.name) from error
        if known.attempt is None and {names.Mark.GONE, names.Mark.STOPPED} & set(known.marks):
            raise InvalidRequest("this name was stopped or released, and is not used again", provider=self.name)
        gpus = self._room(launch) if known.attempt is None else names.gpus(known.attempt)
        document = request.document(launch, self._options, gpus)
        digest = request.digest(document)
        if known.attempt is None:
            labels = names.of_launch(launch, digest, gpus, self._clock.now_ms())
            try:
                made = await self._api.post("/volumes/create", {"Name": launch.key, "Labels": labels})
            except TROUBLE as error:
                raise translate.failed_create(error, self._options) from error
            winner: Mapping[str, str] = made.get("Labels") or {}
        else:
            winner = known.attempt
        if winner.get(names.NONCE) != launch.tag.nonce or winner.get(names.DIGEST) != digest:
            raise InvalidRequest("something else bears this name", provider=self.name)
        return (None if known.attempt is None else known), winner, document

    def _room(self, launch: Launch) -> tuple[str, ...]:
        """The GPUs it gets. Raises ``NoCapacity``, or ``InvalidRequest`` for an offer that is none of ours."""
        mine = {offer.id: offer for offer in self.offers()}
        offer = mine.get(launch.offer.id)
        if self._capacity is None:
            raise Unavailable("the engine has not answered yet", provider=self.name)
        if offer is None:
            raise InvalidRequest(f"there is no offer {launch.offer.id!r} here", provider=self.name)
        free = offers.left(self._capacity, self._living.values())
        demand, resources = launch.demand, launch.spec.resources
        cores = demand.cpu_cores if demand.cpu_cores is not None else resources.cpu_cores
        memory = demand.memory_bytes if demand.memory_bytes is not None else resources.memory_bytes
        if free.slots == 0 or (cores or 0) > free.cpu_cores or (memory or 0) > free.memory_bytes:
            raise NoCapacity("the engine's machine has not so much left", provider=self.name)
        model = offer.gpu.model if offer.gpu is not None else None
        fitting = [gpu.id for gpu in free.gpus if gpu.model == model]
        if demand.gpu_count > len(fitting):
            raise NoCapacity(f"{len(fitting)} GPUs are free, {demand.gpu_count} are wanted", provider=self.name)
        return tuple(fitting[: demand.gpu_count])

    async def _unfinished(self, key: str) -> bool:
        """Has its name been given, and nothing more?"""
        return await self._inspect(key) is None and await self._inspect(names.hold(key)) is None

    async def _may_stay(self, key: str, labels: Mapping[str, str]) -> bool:
        """Was it stopped or released while it was made? Whoever stops it writes that down first, and then looks."""
        known = await self._marks.known(key)
        if names.Mark.GONE in known.marks:
            await self._delete(key)
            return False
        return known.attempt is not None and known.attempt.get(names.NONCE) == labels.get(names.NONCE)

    def _prepare(self, key: str, document: Json | None, labels: Mapping[str, str]) -> None:
        """Go on with it in the background, unless somebody here does."""
        if key in self._tasks:
            return

        async def run() -> None:
            try:
                done = await self._preparing.prepare(key, document, labels, self._clock.now_ms())
                self._watching.stir()
                if done:
                    await self._preparing.drop_hold(key)
            except TROUBLE:
                pass  # the next look begins it again
            finally:
                self._tasks.pop(key, None)
            await self._tell(key)

        self._tasks[key] = asyncio.create_task(run(), name=f"prepare {key}")

    async def _inspect(self, name: str) -> Json | None:
        try:
            found: Json = await self._api.get(named("containers", name, "json"))
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise
        return found

    async def _seen(self, key: str) -> translate.Seen:
        known = await self._marks.known(key)
        container = await self._inspect(key) if known.attempt is not None else None
        return translate.Seen(key=key, known=known, container=container, offset_ms=self._offset_ms)

    async def _observe(self, key: str) -> Observation:
        seen = await self._seen(key)
        now_ms = self._clock.now_ms()
        attempt = seen.known.attempt
        if attempt is None or names.Mark.GONE in seen.known.marks:
            self._ending.forget(key)
            return translate.observed(seen, self.name, now_ms)
        if seen.over:
            if self._living.end(key) and self._hints is not None:
                self._hints.capacity()
            if seen.never:
                return translate.observed(seen, self.name, now_ms)
            return self._ending.final(key, now_ms) or await self._ending.observed(seen, self.name, now_ms)
        if seen.container is None and key not in self._tasks:
            return await self._unmade(seen, attempt, now_ms)
        return translate.observed(seen, self.name, now_ms)

    async def _unmade(self, seen: translate.Seen, attempt: Mapping[str, str], now_ms: int) -> Observation:
        """Nobody here makes it: go on with it, if there is what is needed for that."""
        plain = translate.observed(seen, self.name, now_ms)
        if await self._inspect(names.hold(seen.key)) is not None:
            self._prepare(seen.key, None, attempt)
            return plain
        if await self._inspect(seen.key) is not None or now_ms - names.count(attempt.get(names.CREATED)) < YOUNG_MS:
            return plain
        self._living.end(seen.key)
        return Observation(key=seen.key, phase=Phase.GONE, observed_ms=now_ms, source=self.name, native_state="removed")

    async def _permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        key = request.key
        seen = await self._seen(key)
        attempt = seen.known.attempt
        if attempt is None or attempt.get(names.NONCE) != request.tag.nonce or seen.never:
            return
        if seen.native not in translate.WAITING or names.Mark.GONE in seen.known.marks:
            return
        if not granted:
            await self._marks.put(key, names.Mark.REFUSED, attempt, cause=Cause.STALE_PERMIT, says=reason)
            await self._tell(key)
        elif await self._may_start(key, seen, attempt):
            await self._start(key, attempt)
        self._watching.stir()

    async def _may_start(self, key: str, seen: translate.Seen, attempt: Mapping[str, str]) -> bool:
        """Our script starts a program once, however often it is started. Where it is missing, a mark does."""
        labels = ((seen.container or {}).get("Config") or {}).get("Labels") or {}
        if not labels.get(names.PLAIN):
            return True
        return await self._marks.put(key, names.Mark.BEGUN, attempt, at_ms=self._clock.now_ms())

    async def _start(self, key: str, attempt: Mapping[str, str]) -> None:
        try:
            await self._api.post(named("containers", key, "start"))
        except Refused as refusal:
            if refusal.status == 404 and await self._inspect(key) is None:
                return  # it was released meanwhile
            await self._marks.put(key, names.Mark.FAILED, attempt, cause=_start_cause(refusal), says=refusal.message)
            await self._tell(key)
            return
        known = await self._marks.known(key)
        if {names.Mark.STOPPED, names.Mark.GONE} & set(known.marks):
            await self._stop(key, 0.0)

    async def _cancel(self, key: str, grace_s: float) -> None:
        seen = await self._seen(key)
        if seen.over:
            self._ending.stop_collecting(key)
            return
        labels, now_ms = seen.known.attempt or {}, self._clock.now_ms()
        await self._marks.put(key, names.Mark.STOPPED, labels, cause=Cause.STOPPED, says="stopped", at_ms=now_ms)
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()
        container = await self._inspect(key)
        if container is not None and container["State"].get("Status") not in (*translate.WAITING, *translate.OVER):
            await self._stop(key, grace_s)
        else:
            await self._tell(key)
        self._watching.stir()

    async def _stop(self, key: str, grace_s: float) -> None:
        """Ask the engine to stop it; it goes on with that by itself, and is not waited for."""

        async def run() -> None:
            try:
                async with self._api.stream(
                    "POST", named("containers", key, "stop"), silence_s=grace_s + STOP_LIMIT_S, t=round(grace_s)
                ) as pieces:
                    async for _ in pieces:
                        pass
            except TROUBLE:
                pass  # whether it stopped is seen
            finally:
                self._tasks.pop(f"stop {key}", None)

        if f"stop {key}" not in self._tasks:
            self._tasks[f"stop {key}"] = asyncio.create_task(run(), name=f"stop {key}")

    async def _release(self, key: str) -> bool:
        known = await self._marks.known(key)
        if names.Mark.GONE not in known.marks:
            now_ms = self._clock.now_ms()
            await self._marks.put(key, names.Mark.GONE, known.attempt or {}, says="released", at_ms=now_ms)
        for task in (self._tasks.get(key), self._tasks.get(f"stop {key}")):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._ending.forget(key)
        gone = await self._delete(key)
        if gone and self._living.end(key) and self._hints is not None:
            self._hints.capacity()
        return gone

    async def _delete(self, key: str) -> bool:
        """Containers first, then their volumes; true when the engine says that nothing of it is there."""
        for container in (key, names.hold(key)):
            try:
                await self._api.delete(named("containers", container), force=True, v=True)
            except Refused as refusal:
                if refusal.status not in (404, 409):
                    raise
        known = await self._marks.known(key)
        others = [names.mark(key, which) for which in known.marks if which is not names.Mark.GONE]
        gone = [await self._marks.drop(volume) for volume in (*names.data(key), *others)]
        gone.append(await self._marks.drop(key))
        left = await self._inspect(key) or await self._inspect(names.hold(key))
        return all(gone) and left is None

    # Hints: what the engine would not tell by itself.

    async def _hello(self) -> None:
        version = await self._api.get("/version")
        asked_ms = self._clock.now_ms()
        info = await self._api.get("/info")
        now_ms = self._clock.now_ms()
        first = not self._live
        self._capacity = offers.capacity(self._options, info)
        self._preparing.architecture = str(info.get("Architecture") or "")
        self._preparing.through_mounts = translate.through_mounts(version)
        there_ms = translate.instant_ms(info.get("SystemTime"), 0)
        off_ms = 0 if there_ms is None else (asked_ms + now_ms) // 2 - there_ms
        # An answer that took long tells the time badly.
        self._offset_ms = off_ms if abs(off_ms) >= SKEW_MIN_MS + now_ms - asked_ms else 0
        self._region = self._options.region or translate.region(info)
        self._notes = translate.notes(info, self._options)
        self._live, self._heard_ms = True, now_ms
        if first and self._hints is not None:
            self._hints.capacity()

    def _lost(self, error: Exception) -> None:
        del error
        self._live = False

    async def _looked(self, listed: list[Json]) -> None:
        turn = self._living.look()
        attempts = await self._marks.listed(f"{names.KIND}={names.Kind.ATTEMPT.value}")
        programs = [each for each in listed if labels_of(each).get(names.KIND) == names.Kind.PROGRAM.value]
        over = {labels_of(each)[names.KEY] for each in programs if each.get("State") in translate.OVER}
        freed = self._living.listed(attempts, over, turn)
        hints, now_ms = self._hints, self._clock.now_ms()
        self._live, self._heard_ms = True, now_ms
        if now_ms - self._tidied_ms >= EVERY_MS:
            self._tidied_ms = now_ms
            await tidy(self._marks, self._options.checkpoint_days, now_ms)
        if hints is None:
            return
        there = {labels[names.KEY] for labels in attempts}
        self._told = {key: word for key, word in self._told.items() if key in there}
        self._asked_ms = {key: at_ms for key, at_ms in self._asked_ms.items() if key in there}
        if freed:
            hints.capacity()
        for container in programs:
            await self._hint(hints, container, now_ms)
            await self._hold_to_limit(container, now_ms)

    async def _hint(self, hints: Hints, container: Json, now_ms: int) -> None:
        labels, state = labels_of(container), str(container.get("State"))
        key = labels[names.KEY]
        if state in translate.WAITING and now_ms - self._asked_ms.get(key, 0) >= ASK_AGAIN_MS:
            self._asked_ms[key] = now_ms
            hints.permit_wanted(names.request(labels))
        if self._told.get(key) == state:
            return
        self._told[key] = state
        if not await self._tell(key):
            self._told.pop(key, None)

    async def _hold_to_limit(self, container: Json, now_ms: int) -> None:
        """End what is over its time and has no script of ours that would."""
        labels = labels_of(container)
        limit_s = int(labels.get(names.LIMIT) or 0)
        if not (labels.get(names.PLAIN) and limit_s and container.get("State") == "running"):
            return
        key = labels[names.KEY]
        found = await self._inspect(key)
        began_ms = translate.instant_ms((found or {}).get("State", {}).get("StartedAt"), self._offset_ms)
        if began_ms is not None and now_ms - began_ms >= limit_s * SECOND_MS:
            await self._marks.put(key, names.Mark.LATE, labels, cause=Cause.TIMEOUT)
            await self._stop(key, float(labels.get(names.GRACE) or 0))

    async def _tell(self, key: str) -> bool:
        """Pass on what is to be seen of it; true when it could be looked at."""
        if self._hints is None:
            return True
        try:
            seen = await self._ask(self._observe(key))
        except ProviderError:
            return False
        if self._hints is not None:
            self._hints.changed(seen)
        return seen.phase is not Phase.COLLECTING


def _start_cause(refusal: Refused) -> Cause:
    """Whose fault it is that a container cannot be started."""
    words = (
        "executable file not found",
        "no such file or directory",
        "permission denied",
        "exec format error",
        "not a directory",
    )
    program = refusal.status in (400, 404) or any(word in refusal.message.lower() for word in words)
    return Cause.START_FAILED if program else Cause.PROVIDER_ERROR
