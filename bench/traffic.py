"""Trivial workloads in numbers: made, handed in over HTTP, and waited for."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from time import perf_counter, sleep

from bench.floors import PROGRAM
from bench.http import Door, Json, Reply, at_once, in_turn, stream_end

WORKLOADS_PATH = "/v1/workloads"
FINISH_WITHIN_S = 300.0
POLL_S = 0.01
STREAM_END = b"event: end\n"
LIVE = "&".join(f"state={state}" for state in ("accepted", "waiting", "placing", "running", "delivering"))

_keys = itertools.count()


def trivial(*command: str, filler_chars: int = 0) -> Json:
    """The least that can be asked for."""
    spec: Json = {"runtime": {"type": "process", "command": list(command or (PROGRAM,))}}
    if filler_chars:
        spec["metadata"] = {"filler": "x" * filler_chars}
    return spec


def submissions(door: Door, spec: Json) -> Iterator[bytes]:
    """Endless requests, each with its own idempotency key."""
    template = door.request("POST", WORKLOADS_PATH, spec, idempotency_key="bench-KEY")
    for number in _keys:
        yield template.replace(b"bench-KEY", b"bench-%d" % number)


def submit(door: Door, spec: Json, count: int, connections: int = 1) -> list[str]:
    """The ids, in the order of the answers."""
    requests = itertools.islice(submissions(door, spec), count)
    replies = list(in_turn(door, requests)) if connections == 1 else at_once(door, requests, connections)
    return [str(reply.checked().json()["id"]) for reply in replies]


def submit_for(door: Door, spec: Json, seconds: float, connections: int) -> tuple[float, list[Reply]]:
    """As many as go in so many seconds; how many per second, and the replies."""
    began = perf_counter()

    def until() -> Iterator[bytes]:
        for request in submissions(door, spec):
            if perf_counter() - began >= seconds:
                return
            yield request

    replies = list(in_turn(door, until())) if connections == 1 else at_once(door, until(), connections)
    elapsed_s = perf_counter() - began
    for reply in replies:
        reply.checked()
    return len(replies) / elapsed_s, replies


def finished(door: Door, ids: Sequence[str]) -> None:
    """Returns when every one is over: the last one's events end, and then none is left that is not."""
    stream_end(door, f"{WORKLOADS_PATH}/{ids[-1]}/events", STREAM_END)
    if len(ids) == 1:
        return
    deadline = perf_counter() + FINISH_WITHIN_S
    live = door.request("GET", f"{WORKLOADS_PATH}?{LIVE}&limit=1")
    while next(in_turn(door, [live])).checked().json()["items"]:
        if perf_counter() > deadline:
            raise TimeoutError(f"not all of {len(ids)} workloads were over after {FINISH_WITHIN_S} s")
        sleep(POLL_S)


def outcomes(door: Door, ids: Sequence[str]) -> Counter[str]:
    """How many ended in which state."""
    replies = in_turn(door, [door.request("GET", f"{WORKLOADS_PATH}/{workload_id}") for workload_id in ids])
    return Counter(str(reply.checked().json()["state"]) for reply in replies)
