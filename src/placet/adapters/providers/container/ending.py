"""From the end of a program to its final observation: how it ended, what it wrote, what it left. Done once, kept."""

import asyncio
import json
from dataclasses import replace
from typing import Any

from placet.adapters.providers.container import collecting, files, logs, names, translate
from placet.adapters.providers.container.api import EngineApi
from placet.adapters.providers.container.options import ContainerOptions
from placet.adapters.providers.container.preparing import REQUEST
from placet.domain.allocations import LogSeal, Observation, Phase

Json = dict[str, Any]

# Most ends are read within this time, and are told at once.
AT_ONCE_S = 2.0
EXIT = "exit"


class Ending:
    """Final observations by key. A look at what has just ended waits a moment for them."""

    def __init__(self, api: EngineApi, options: ContainerOptions) -> None:
        self._api = api
        self._options = options
        self._final: dict[str, Observation] = {}
        self._tasks: dict[str, asyncio.Task[Observation]] = {}
        self._stopped: set[str] = set()

    def final(self, key: str, now_ms: int) -> Observation | None:
        """What is known for ever, if it is."""
        known = self._final.get(key)
        return None if known is None else replace(known, observed_ms=now_ms)

    def forget(self, key: str) -> None:
        """It is released."""
        self._final.pop(key, None)
        self._stopped.discard(key)
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    async def observed(self, seen: translate.Seen, source: str, now_ms: int) -> Observation:
        """The end of it, or that it is still being looked through. Raises what a call of the engine raises."""
        task = self._tasks.get(seen.key)
        if task is None:
            task = self._tasks[seen.key] = asyncio.create_task(self._look(seen, source, now_ms))
        await asyncio.wait({task}, timeout=AT_ONCE_S)
        if not task.done():
            plain = translate.observed(seen, source, now_ms)
            return replace(plain, phase=Phase.COLLECTING, cause=None, collected=False)
        self._tasks.pop(seen.key, None)
        if task.cancelled():
            plain = translate.observed(seen, source, now_ms)
            return replace(plain, phase=Phase.UNKNOWN, cause=None)
        return replace(task.result(), observed_ms=now_ms)

    def stop_collecting(self, key: str) -> None:
        """Its outputs are not wanted any more."""
        task = self._tasks.get(key)
        if task is not None and not task.done():
            self._stopped.add(key)
            task.cancel()

    async def close(self) -> None:
        """Break off."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, seen: translate.Seen, source: str, now_ms: int) -> Observation:
        kept = await files.small_files(self._api, seen.key, names.PLACE)
        seen = replace(seen, written=translate.words(kept.get(EXIT)))
        final = replace(translate.observed(seen, source, now_ms), collected=True, logs=await self._seals(seen.key))
        document = _request(kept.get(REQUEST))
        if document is not None and document["outputs"] and final.started_ms is not None:
            final = await self._collected(final, seen, document)
        self._final[seen.key] = final
        return final

    async def _seals(self, key: str) -> tuple[LogSeal, ...]:
        found = await logs.sizes(self._api, key)
        return tuple(LogSeal(stream=name, bytes_total=size, bytes_kept=size) for name, size in found.items())

    async def _collected(self, final: Observation, seen: translate.Seen, document: Json) -> Observation:
        folder = str((seen.container or {}).get("Config", {}).get("WorkingDir") or names.WORK)
        limit_s = self._options.collect_limit_s
        try:
            async with asyncio.timeout(limit_s):
                done = await collecting.collect(
                    self._api, seen.key, document["outputs"], folder, self._options.output_bytes
                )
        except TimeoutError:
            return replace(final, problem=f"collecting took longer than {limit_s:g} s")
        except collecting.TooMuch as error:
            return replace(final, problem=f"the outputs were not collected: {error}")
        except asyncio.CancelledError:
            if seen.key not in self._stopped:
                raise
            return replace(final, problem="collecting was stopped on request")
        return replace(final, outputs=tuple(done.outputs), missing=tuple(done.missing), skipped=tuple(done.skipped))


def _request(text: bytes | None) -> Json | None:
    try:
        document: Json = json.loads(text or b"")
    except ValueError:
        return None
    return document
