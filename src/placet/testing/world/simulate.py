"""One seed, lived through: faults, then calm, then judgement."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from placet.engine import draft, reconcile
from placet.testing.world.clients import Client
from placet.testing.world.loop import VirtualLoop, run_virtual
from placet.testing.world.options import Options
from placet.testing.world.process import tasks_of_processes
from placet.testing.world.serving import Server, World, make_world
from placet.testing.world.trace import Trace, Violation

# After the faults there is time for every wait there is: leases, absence, back-off, blocks of an hour.
CALM_S = 4 * 3600.0
LOOK_S = 15.0
# Longer than the longest wait without any event, a block of an hour.
NOTHING_S = 4500.0
EVENTS_MAX = 200_000
# A day is more than it takes to see that outputs are kept for it.
KEPT_MS = 300_000


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of one seed."""

    options: Options
    digest: str
    violations: tuple[Violation, ...]
    lines: tuple[str, ...]
    injected: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    events: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0


def _say_nothing(*words: object, **fields: object) -> None:
    del words, fields


class _Silent:
    """The world's trace tells more than logs."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _say_nothing


@contextmanager
def _as_in_the_world() -> Iterator[None]:
    kept: list[tuple[Any, str, object]] = [
        (reconcile, "log", reconcile.log),
        (draft, "UNDELIVERED_KEPT_MS", draft.UNDELIVERED_KEPT_MS),
    ]
    vars(reconcile)["log"] = _Silent()
    vars(draft)["UNDELIVERED_KEPT_MS"] = KEPT_MS
    try:
        yield
    finally:
        for where, name, value in kept:
            vars(where)[name] = value


def simulate(options: Options) -> Report:
    """Live through the world of these options."""
    return live(options, serve)


def live(options: Options, life: Callable[[World], Coroutine[Any, Any, None]]) -> Report:
    """Live through a world in another way than with servers and clients: for what is to be held beside them."""
    begun_s = time.process_time()
    worlds: list[World] = []

    async def main(loop: VirtualLoop) -> None:
        trace = Trace(loop.time)
        worlds.append(make_world(options, loop, trace))
        await life(worlds[0])

    with _as_in_the_world():
        run_virtual(main)
    world = worlds[0]
    world.disk.database.close()
    return Report(
        options=options,
        digest=world.trace.digest,
        violations=tuple(world.trace.violations),
        lines=tuple(world.trace.lines),
        injected=world.trace.injected,
        met=world.trace.met,
        answered=world.trace.answered,
        events=world.trace.events,
        virtual_s=world.loop.time(),
        took_s=time.process_time() - begun_s,
    )


async def serve(world: World) -> None:
    """Our servers and their clients, through the faults, until all is over and nothing happens any more."""
    loop, options = world.loop, world.options
    loop.set_task_factory(tasks_of_processes)
    servers = [Server(world=world, number=number) for number in range(options.workers)]
    world.disk.power_cut = lambda: _cut_power(world, servers)
    lives = [loop.create_task(server.run()) for server in servers]
    clients = [loop.create_task(Client(world=world, servers=servers, wish=wish).run()) for wish in options.wishes]
    await _with_faults(world, clients)
    world.faults.on = False
    world.trace.tell("calm")
    until_s = loop.time() + CALM_S
    while loop.time() < until_s and world.trace.events < EVENTS_MAX:
        if _quiet(world, clients):
            break
        if loop.time() - world.trace.told_s > NOTHING_S:
            break
        await asyncio.sleep(LOOK_S)
        world.oracle.look()
    for client in clients:
        if client.done() and client.exception() is not None:
            world.trace.violate("fault", f"a request ended by {client.exception()!r}")
    if world.trace.events >= EVENTS_MAX:
        world.trace.violate("I14", "it never comes to rest")
    world.oracle.end()
    for life in lives:
        if life.done():
            world.trace.violate("fault", f"a server was not started again: {life.exception()!r}")


async def _with_faults(world: World, clients: list["asyncio.Task[None]"]) -> None:
    """The faults go on for as long as was drawn; when all is over before, there is nothing left for them to hurt."""
    for _ in range(math.ceil(world.options.faults_s / LOOK_S)):
        await asyncio.sleep(min(LOOK_S, world.options.faults_s - world.loop.time()))
        if _quiet(world, clients):
            return


def _quiet(world: World, clients: list["asyncio.Task[None]"]) -> bool:
    """Has everything happened that ever will, faults or not?"""
    asked = zip(world.options.wishes, clients, strict=True)
    return world.oracle.quiet([wish.name for wish, client in asked if not client.done()])


def _cut_power(world: World, servers: list[Server]) -> None:
    """All servers die at once, and the disk has what was flushed."""
    for server in servers:
        if server.process is not None:
            server.process.kill()
    world.disk.database.cut_power()
    world.oracle.power_came_back()
