"""Looks at an engine for as long as a server has it open: its events, and in turns everything of ours."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from placet.adapters.providers.container import names, translate
from placet.adapters.providers.container.api import EngineApi, NotSent, Refused, Unheard
from placet.adapters.providers.container.images import lines

Json = dict[str, Any]

# Events tell most; what they do not tell, or tell nobody, is looked for this often.
LOOK_EVERY_S = 2.0
AGAIN_S = 1.0
INFO_EVERY_LOOKS = 15
TROUBLE = (Refused, NotSent, Unheard)


class Watching:
    """Calls back: ``hello`` now and then, ``looked`` with all that is ours."""

    def __init__(
        self,
        api: EngineApi,
        hello: Callable[[], Awaitable[None]],
        looked: Callable[[list[Json]], Awaitable[None]],
        lost: Callable[[Exception], None],
    ) -> None:
        self._api = api
        self._hello = hello
        self._looked = looked
        self._lost = lost
        self._stirred = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(self._watch(), name="container engine"),
            asyncio.create_task(self._listen(), name="events of the container engine"),
        ]

    async def close(self) -> None:
        """End."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stir(self) -> None:
        """Look now."""
        self._stirred.set()

    async def _watch(self) -> None:
        turn = 0
        while True:
            self._stirred.clear()
            try:
                if turn % INFO_EVERY_LOOKS == 0:
                    await self._hello()
                turn += 1
                listed = await self._api.get("/containers/json", all=True, filters={"label": [names.KEY]})
                await self._looked(listed)
            except TROUBLE as error:
                turn = 0  # another engine may answer next
                self._lost(error)
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._stirred.wait()
            except TimeoutError:
                continue

    async def _listen(self) -> None:
        """An event is a reason to look and no more, so that none is missed by being told in another way."""
        wanted = {"label": [names.KEY], "type": ["container"]}
        while True:
            try:
                async with self._api.stream("GET", "/events", filters=wanted) as pieces:
                    async for event in lines(pieces):
                        if translate.tells(event):
                            self._stirred.set()
            except TROUBLE:
                pass  # the other task says so
            await asyncio.sleep(AGAIN_S)


def labels_of(listed: Json) -> Mapping[str, str]:
    """The marks of a container in a list."""
    return listed.get("Labels") or {}
