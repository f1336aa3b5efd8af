"""The loop that most articles show: submit, on an error submit again, poll, take the first final word, stop once.

It is a baseline for `bench.faults` and speaks to the very same simulated provider, over the same wire, as Placet's
engine does. It looks nothing up before it submits again, writes nothing down but results, and believes what it reads.
"""

import asyncio
from collections.abc import Callable

from placet.domain.allocations import Handle, Launch, Observation, PermitRequest, Phase, Tag
from placet.domain.errors import ProviderError
from placet.domain.offers import Demand
from placet.ports.provider import Hints
from placet.testing.world.adapter import Adapter
from placet.testing.world.clients import TENANT, spec_of
from placet.testing.world.keeping import WorldArtifacts
from placet.testing.world.options import Wish
from placet.testing.world.process import Process, ProcessClock
from placet.testing.world.serving import World

SUBMITS = 5
AGAIN_S = 5.0
POLL_S = 10.0
MISSES = 3
START_WITHIN_S = 300.0
RESUBMITS = 5
STARTED = frozenset({Phase.PREPARING, Phase.RUNNING, Phase.STOPPING, Phase.COLLECTING})
# Its words for how something ended.
SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
NO_MACHINE = "no machine"


class NaiveLoop:
    """One process that wants all wishes of a world run; ``told`` hears each final word once."""

    def __init__(self, world: World, told: Callable[[str, str], None]) -> None:
        self._world = world
        self._told = told
        self.results: dict[str, str] = {}
        self.lives = 0

    async def run(self) -> None:
        """Live, die, begin again with what has no result yet."""
        while len(self.results) < len(self._world.options.wishes):
            world = self._world
            self.lives += 1
            process = Process("loop", world.loop, world.faults, world.trace)
            adapter = Adapter(world.cloud, world.wire, process, ProcessClock(process, 0), world.oracle)
            died = world.loop.create_future()

            def die(adapter: Adapter = adapter, died: asyncio.Future[None] = died) -> None:
                adapter.die()
                if not died.done():
                    died.set_result(None)

            process.died = die
            works = process.start(self._all(process, adapter))
            await asyncio.wait([works, died], return_when=asyncio.FIRST_COMPLETED)
            if process.alive:
                works.result()
            adapter.die()
            await asyncio.sleep(AGAIN_S)

    async def _all(self, process: Process, adapter: Adapter) -> None:
        async def permit(request: PermitRequest) -> None:
            try:
                await adapter.answer_permit(request, True, "")
            except ProviderError:
                return  # the runner asks again

        await adapter.open(
            Hints(
                permit_wanted=lambda request: process.start(permit(request)),
                changed=lambda seen: None,  # noqa: ARG005 - it polls
                capacity=lambda: None,
            )
        )
        left = [wish for wish in self._world.options.wishes if wish.name not in self.results]
        await asyncio.gather(*(_One(self, process, adapter, wish).run() for wish in left))

    def end(self, name: str, word: str) -> None:
        """The first final word counts."""
        if name not in self.results:
            self.results[name] = word
            self._told(name, word)

    @property
    def world(self) -> World:
        """Where it lives."""
        return self._world


class _One:
    """One wish, followed to its first final word."""

    def __init__(self, loop: NaiveLoop, process: Process, adapter: Adapter, wish: Wish) -> None:
        self._loop = loop
        self._adapter = adapter
        self._wish = wish
        self._kept = WorldArtifacts(loop.world.kept, loop.world.cloud, process)
        self._handle: Handle | None = None
        self._submits = 0

    async def run(self) -> None:
        now_s = self._loop.world.loop.time()
        await asyncio.sleep(max(self._wish.at_s - now_s, 0.0))
        follow = asyncio.ensure_future(self._follow())
        stop = asyncio.ensure_future(self._stop_later())
        await asyncio.wait([follow, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        follow.cancel()
        for task in (follow, stop):
            if task.done() and not task.cancelled():
                task.result()

    async def _stop_later(self) -> None:
        if self._wish.cancel_at_s is None:
            await asyncio.Event().wait()
        assert self._wish.cancel_at_s is not None
        await asyncio.sleep(self._wish.cancel_at_s)
        if self._handle is not None:
            try:
                await self._adapter.cancel(self._handle, 10.0)
            except ProviderError:
                pass  # stop was called
            await self._delete(self._handle)
        self._loop.end(self._wish.name, CANCELLED)

    async def _follow(self) -> None:
        word = NO_MACHINE
        for _ in range(RESUBMITS):
            self._handle = await self._submit()
            if self._handle is None:
                break
            seen = await self._poll(self._handle)
            if seen is not None:
                word = await self._fetched(self._handle, seen)
                await self._delete(self._handle)
                break
        self._loop.end(self._wish.name, word)

    async def _submit(self) -> Handle | None:
        """On an error once more, with a pause; what became of the one before is not asked."""
        for _ in range(SUBMITS):
            try:
                return await self._adapter.submit(self._launch())
            except ProviderError:
                await asyncio.sleep(AGAIN_S)
        return None

    def _launch(self) -> Launch:
        self._submits += 1
        name, number = self._wish.name, f"{self._loop.lives}-{self._submits}"
        return Launch(
            key=f"{name}-{number}",
            tag=Tag(deployment="naive", workload_id=name, epoch=self._submits, nonce=number),
            offer=self._adapter.offers()[0],
            spec=spec_of(self._wish),
            demand=Demand(),
        )

    async def _poll(self, handle: Handle) -> Observation | None:
        """The first final word; nothing when it is taken for dead."""
        misses, begun_s, started = 0, self._loop.world.loop.time(), False
        while misses < MISSES:
            await asyncio.sleep(POLL_S)
            try:
                (seen,) = await self._adapter.observe([handle])
            except ProviderError:
                misses += 1
                continue
            misses = 0
            if seen.phase is Phase.ENDED:
                return seen
            if seen.phase is Phase.GONE:
                return None
            started = started or seen.phase in STARTED
            if not started and self._loop.world.loop.time() - begun_s > START_WITHIN_S:
                return None
        return None

    async def _fetched(self, handle: Handle, seen: Observation) -> str:
        """Logs and outputs, once; what it says then."""
        await self._fetch_log(handle)
        if seen.exit_code != 0 or seen.cause is not None:
            return FAILED
        try:
            for output in seen.outputs:
                place = self._kept.location(TENANT, self._wish.name, 1, f"outputs/{output.path}")
                await self._kept.adopt(place, output.location, size_bytes=output.size_bytes, sha256=output.sha256)
        except (OSError, ValueError):
            return FAILED
        return SUCCEEDED

    async def _fetch_log(self, handle: Handle) -> None:
        pieces = (chunk.data async for chunk in self._adapter.logs(handle, "stdout", 0))
        try:
            await self._kept.write(self._kept.location(TENANT, self._wish.name, 1, "logs/stdout"), pieces)
        except (OSError, ProviderError):
            return

    async def _delete(self, handle: Handle) -> None:
        try:
            await self._adapter.release(handle)
        except ProviderError:
            return
