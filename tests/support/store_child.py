"""A process that writes to a store and says on its output what was acknowledged, for tests that kill it.

``submit ADDRESS OFFSET COUNT`` accepts COUNT workloads under the keys k0, k1, ... and ends; ``live ADDRESS OFFSET``
takes workloads through their lives until it is killed; ``full ADDRESS BYTES`` meets a limit on the size of files.
"""

import asyncio
import itertools
import resource
import sys
from dataclasses import replace
from pathlib import Path

from placet.adapters.store import SqlStore, make_store
from placet.domain.errors import StoreError
from placet.domain.records import Transition, Workload
from placet.domain.states import AttemptState, WorkloadState
from placet.testing.conformance.store_values import acceptance_of, applied, new_attempt, new_workload, transition_to

W = WorkloadState
LIVES_AT_ONCE = 8
TRIES = 2_000


def say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


async def opened(address: str) -> SqlStore:
    store = make_store(address)
    await store.open()
    return store


def size_of(address: str) -> int:
    return Path(address.removeprefix("sqlite:///")).stat().st_size


async def submit(address: str, offset: str, count: str) -> None:
    store = await opened(address)
    requests = [acceptance_of(new_workload(int(offset) + n), key=f"k{n}") for n in range(int(count))]
    for outcome in await asyncio.gather(*(store.accept(request) for request in requests)):
        say(outcome.outcome, outcome.workload_id)
    await store.close()


async def live(address: str, offset: str) -> None:
    store = await opened(address)
    numbers = itertools.count(int(offset))
    await asyncio.gather(*(lives(store, numbers) for _ in range(LIVES_AT_ONCE)))


async def lives(store: SqlStore, numbers: "itertools.count[int]") -> None:
    for number in numbers:
        workload = new_workload(number)
        await store.accept(acceptance_of(workload, key=f"k{number}"))
        say(workload.id, W.ACCEPTED.value)
        for transition in steps(workload):
            assert await applied(store, transition)
            say(workload.id, transition.workload.state.value)


def steps(workload: Workload) -> list[Transition]:
    attempt = new_attempt(workload)
    first = replace(transition_to(workload, W.PLACING, front_door=True), attempts=(attempt,), flush=True)
    running = replace(attempt, state=AttemptState.RUNNING)
    second = replace(transition_to(first.workload, W.RUNNING, front_door=True), attempts=(running,), flush=True)
    third = replace(transition_to(second.workload, W.FAILED, front_door=True), result="{}", flush=True)
    return [first, second, third]


async def full(address: str, limit: str) -> None:
    """Accepts until the limit stops it, then is given room and goes on."""
    store = await opened(address)
    used = size_of(address)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (used + int(limit), hard))
    for number in range(TRIES):
        try:
            await store.accept(acceptance_of(new_workload(number), key=f"k{number}"))
        except StoreError as error:
            say("refused", new_workload(number).id, type(error).__name__)
            break
        say("created", new_workload(number).id)
    assert (await store.counts())[W.ACCEPTED] == number
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    outcome = await store.accept(acceptance_of(new_workload(TRIES), key="last"))
    say(outcome.outcome, outcome.workload_id)
    await store.close()


if __name__ == "__main__":
    asyncio.run({"submit": submit, "live": live, "full": full}[sys.argv[1]](*sys.argv[2:]))
