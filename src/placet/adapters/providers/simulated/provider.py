"""The simulated provider: the verbs of the port over the simulated cloud. It keeps nothing; the cloud's file does."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeVar

from placet.adapters.pieces import read_file
from placet.adapters.providers.simulated import translate
from placet.adapters.providers.simulated.behaviour import Machine, Order, State, look, visible
from placet.adapters.providers.simulated.cloud import Cloud, Page, Reply
from placet.adapters.providers.simulated.offers import RUNTIMES, Row, make_offers
from placet.adapters.providers.simulated.options import SimulatedOptions, behaviour_of
from placet.adapters.providers.simulated.rehearsal import rehearsed
from placet.adapters.refusals import provider_error
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
from placet.domain.errors import InvalidRequest, NoCapacity, OutcomeUnknown, Unavailable
from placet.domain.offers import Offer
from placet.domain.spec import Repeat
from placet.domain.units import GB
from placet.ports.ambient import Clock
from placet.ports.provider import Hints

# The cloud tells nobody anything: we look at it, and pass on what changed.
LOOK_EVERY_S = 0.25
ASK_AGAIN_MS = 2000
OFFERS_FRESH_MS = 1000
# The engine asks for offers many times in one round; what the time alone changes is looked for this often.
OFFERS_LOOK_MS = 50
PIECE_BYTES = 256 * 1024

Answer = TypeVar("Answer")


class SimulatedProvider:
    """``Provider`` over a cloud in a folder, which several servers may open at a time."""

    def __init__(self, options: SimulatedOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._cloud = Cloud(options.folder, clock.now_ms)
        self._rows = {row.id: row for row in options.rows}
        self._hints: Hints | None = None
        self._watching: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._told: dict[str, tuple[State, int]] = {}
        self._asked_ms: dict[str, int] = {}
        self._offers: tuple[Offer, ...] = ()
        self._offers_ms = 0
        self._taken: dict[str, int] = {}
        self._revision, self._looked_ms = -1, 0

    @property
    def name(self) -> str:
        return self._options.name

    @property
    def card(self) -> ContractCard:
        return translate.card(self._options, RUNTIMES)

    async def open(self, hints: Hints) -> None:
        try:
            await asyncio.to_thread(self._cloud.open)
        except OSError as error:
            raise Unavailable(f"its folder cannot be used: {error}", provider=self.name) from error
        self._hints = hints
        self._watching = asyncio.create_task(self._watch(), name="simulated cloud")

    async def close(self) -> None:
        watching, self._watching, self._hints = self._watching, None, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def offers(self) -> Sequence[Offer]:
        now_ms, revision = self._clock.now_ms(), self._cloud.revision
        if revision == self._revision and 0 <= now_ms - self._looked_ms < OFFERS_LOOK_MS:
            return self._offers
        self._revision, self._looked_ms = revision, now_ms
        taken = _taken(self._cloud.known(), now_ms)
        if not self._offers or taken != self._taken or now_ms - self._offers_ms >= OFFERS_FRESH_MS:
            self._taken, self._offers_ms = taken, now_ms
            self._offers = make_offers(
                self._options.rows,
                taken,
                provider=self.name,
                startup_s=self._options.behaviour.startup_s,
                by_name_only=not self._options.for_all,
                now_ms=now_ms,
            )
        return self._offers

    async def submit(self, launch: Launch) -> Handle:
        row = self._row(launch)
        order = self._order(launch, row)
        reply = await self._ask(lambda: self._cloud.create(order, row.machines))
        machine = self._good(reply)
        if not machine.order.native_id:
            raise OutcomeUnknown("the reply names nothing", provider=self.name)
        self._stirred.set()
        return translate.handle(machine, self.name)

    async def find(self, key: str) -> Sequence[Handle]:
        return [translate.handle(machine, self.name) async for machine in self._listed(name=key)]

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        return [await self._observe(handle.key) for handle in handles]

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        key, nonce = request.key, request.tag.nonce
        reply = await self._ask(lambda: self._cloud.permit(key, nonce, granted, reason))
        if reply.status != translate.NOT_FOUND:
            self._good(reply)
        self._stirred.set()

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        del grace_s
        reply = await self._ask(lambda: self._cloud.stop(handle.key))
        if not reply.good:
            self._good(reply)
        self._stirred.set()

    async def release(self, handle: Handle) -> bool:
        reply = await self._ask(lambda: self._cloud.delete(handle.key))
        if not reply.good:
            self._good(reply)
        await asyncio.to_thread(translate.discard_files, self._options.folder, handle.key)
        machine = reply.machine
        self._stirred.set()
        return machine is None or machine.deleted_ms is not None

    async def owned(self, deployment: str) -> AsyncIterator[Handle]:
        async for machine in self._listed(deployment=deployment):
            yield translate.handle(machine, self.name)

    async def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        reply = await self._ask(lambda: self._cloud.get(handle.key))
        if reply.status == translate.NOT_FOUND or stream not in translate.STREAMS:
            return
        machine = self._good(reply)
        seen = look(machine, self._clock.now_ms())
        text, total = translate.log(machine, stream, self._clock.now_ms())
        for start in range(offset, len(text), PIECE_BYTES):
            yield LogChunk(stream=stream, offset=start, data=text[start : start + PIECE_BYTES])
        if seen.over:
            yield LogChunk(stream=stream, offset=total, data=b"", dropped=total - len(text), final=True)

    async def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        folder = self._options.folder / "outputs" / handle.key
        async for piece in read_file(folder, found.location, offset):
            yield piece

    def rehearsed(self, launch: Launch, what: str) -> Launch | None:
        """The launch so changed that it behaves so, or meets that fault (``ports.provider.Rehearsing``)."""
        return rehearsed(launch, what, self.name)

    # What the verbs are made of.

    async def _ask(self, call: Callable[[], Answer]) -> Answer:
        try:
            return await asyncio.to_thread(call)
        except OSError as error:
            raise Unavailable(f"its folder cannot be used: {error}", provider=self.name) from error

    def _good(self, reply: Reply) -> Machine:
        """The machine of a reply, or the error that the card's table makes of it."""
        if reply.good and reply.machine is not None:
            return reply.machine
        kind = self.card.error_kind(reply.status, reply.text)
        raw = f"{reply.status} {reply.text}"
        raise provider_error(
            kind,
            f"simulated: {reply.text}",
            provider=self.name,
            raw=raw,
            retry_after_s=reply.wait_s,
            unheard=not self.card.knows(reply.status, reply.text),
        )

    def _row(self, launch: Launch) -> Row:
        row, demand = self._rows.get(launch.offer.id), launch.demand
        if row is None:
            raise InvalidRequest(f"there is no machine {launch.offer.id!r} on the list", provider=self.name)
        small = (demand.cpu_cores or 0) > row.cpu_cores or (demand.memory_bytes or 0) > row.memory_gb * GB
        if small or demand.gpu_count > row.gpu_count:
            raise NoCapacity(f"{row.id} is not as large as what is asked for", provider=self.name)
        return row

    def _order(self, launch: Launch, row: Row) -> Order:
        stated = dict(launch.spec.provider_options).get(self.name, "{}")
        try:
            how = behaviour_of(stated, self._options.behaviour)
        except ValueError as error:
            raise InvalidRequest(f"the options cannot be used: {error}", provider=self.name) from error
        if how.restart_after_s is not None and launch.spec.repeat is Repeat.AT_MOST_ONCE:
            raise InvalidRequest("a program that may run at most once cannot be restarted", provider=self.name)
        tag = launch.tag
        return Order(
            key=launch.key,
            native_id=f"sim-{hashlib.sha256(f'{launch.key}/{tag.nonce}'.encode()).hexdigest()[:16]}",
            deployment=tag.deployment,
            workload_id=tag.workload_id,
            epoch=tag.epoch,
            nonce=tag.nonce,
            offer_id=row.id,
            region=row.region,
            price_usd_per_hour=launch.offer.price_usd_per_hour,
            quantum_s=row.quantum_s,
            asked_ms=self._clock.now_ms(),
            behaviour=how.met_by(tag.epoch),
            runtime_limit_s=None if launch.runtime_s is None else float(launch.runtime_s),
            files=tuple((output.name, output.path) for output in launch.spec.outputs),
        )

    async def _listed(self, *, deployment: str | None = None, name: str | None = None) -> AsyncIterator[Machine]:
        """All pages of a list, or an error: a list that is not complete proves nothing and must not look like one."""
        after: str | None = ""
        found: list[Machine] = []
        page = Page(machines=(), after=None, total=0)
        while after is not None:
            place = after
            page = await self._ask(lambda place=place: self._cloud.page(place, deployment, name))  # type: ignore[misc]  # mypy knows no defaults of a lambda
            found += page.machines
            after = page.after
        if len(found) < page.total:
            raise Unavailable(f"the list has {len(found)} of {page.total} machines", provider=self.name)
        for machine in found:
            yield machine

    async def _observe(self, key: str) -> Observation:
        reply = await self._ask(lambda: self._cloud.get(key))
        now_ms = self._clock.now_ms()
        if reply.status == translate.NOT_FOUND:
            return translate.gone(key, self.name, now_ms)
        machine = self._good(reply)
        seen = translate.observation(machine, self.card, self.name, now_ms)
        if seen.phase is not Phase.ENDED or not seen.computed:
            return seen
        return await asyncio.to_thread(translate.with_files, seen, machine, self._options.folder)

    # Hints: what the cloud would not tell by itself.

    async def _watch(self) -> None:
        while True:
            self._stirred.clear()
            try:
                found = await self._ask(self._cloud.machines)
            except Unavailable:
                found = {}
            machines = [machine for machine in found.values() if machine.deleted_ms is None]
            now_ms = self._clock.now_ms()
            for machine in machines:
                await self._hint(machine, now_ms)
            self._told = {key: told for key, told in self._told.items() if key in found}
            await self._rest(machines, now_ms)

    async def _hint(self, machine: Machine, now_ms: int) -> None:
        key, hints = machine.order.key, self._hints
        seen = look(machine, now_ms)
        if hints is None or seen.state is State.ABSENT:
            return
        if seen.state is State.READY and now_ms - self._asked_ms.get(key, 0) >= ASK_AGAIN_MS:
            self._asked_ms[key] = now_ms
            order = machine.order
            tag = Tag(deployment=order.deployment, workload_id=order.workload_id, epoch=order.epoch, nonce=order.nonce)
            hints.permit_wanted(PermitRequest(key=key, tag=tag))
        state = (seen.state, seen.incarnation)
        if self._told.get(key) == state or not visible(machine, now_ms):
            return
        self._told[key] = state
        try:
            hints.changed(await self._observe(key))
        except Unavailable:
            return  # the engine looks by itself
        if seen.over:
            self._asked_ms.pop(key, None)
            hints.capacity()

    async def _rest(self, machines: Iterable[Machine], now_ms: int) -> None:
        """Sleep until something changes by itself, somebody asks something of us, or other servers may have."""
        changes = [at_ms for machine in machines if (at_ms := look(machine, now_ms).next_ms) is not None]
        rest_s = min([LOOK_EVERY_S, *(max(at_ms - now_ms, 0) / 1000 for at_ms in changes)])
        try:
            async with asyncio.timeout(rest_s):
                await self._stirred.wait()
        except TimeoutError:
            return


def _taken(machines: Sequence[Machine], now_ms: int) -> dict[str, int]:
    """How many machines of each line live."""
    taken: dict[str, int] = {}
    for machine in machines:
        if machine.deleted_ms is None and not look(machine, now_ms).over:
            taken[machine.order.offer_id] = taken.get(machine.order.offer_id, 0) + 1
    return taken
