"""The doors with many workloads behind them: `python -m bench.api [--json] [--workloads N]`.

Beside a floor of the same machine in the same run: uvicorn, plain ASGI and one SQLite table, with as many rows.
"""

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from bench.http import Door, at_once, in_turn
from bench.machine import cpu_ms
from bench.report import Figure, finish, ratios, say, spread
from bench.server import running
from bench.traffic import WORKLOADS_PATH, submit, trivial

CLIENTS = (1, 32)
START_WITHIN_S = 60.0
OCCUPY_S = 3600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--workloads", type=int, default=5000, help="how many are there")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each rate")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    values: dict[str, list[float]] = defaultdict(list)
    with bare(given.workloads) as (floor, floor_pid), running(settings={"PLACET_LOCAL__SLOTS": "1"}) as server:
        say(f"filling: {given.workloads} workloads")
        began = perf_counter()
        ids = submit(server.door, trivial("/bin/sleep", str(OCCUPY_S)), 1)
        ids += submit(server.door, trivial(), given.workloads, CLIENTS[-1])
        fill_s = perf_counter() - began
        for turn in range(given.rounds):
            say(f"round {turn + 1} of {given.rounds}")
            numbers = [str(number) for number in range(given.workloads)]
            record(
                values, "floor", floor, floor_pid, {"get": [f"/{n}" for n in numbers], "list": ["/list"]}, given.seconds
            )
            record(values, "placet", server.door, server.pid, paths(ids), given.seconds)
    facts = vars(given) | {"fill_per_s": given.workloads / fill_s}
    finish("api", {f"Reads with {given.workloads} live workloads": figures(values)}, facts, given.json)


def paths(ids: Sequence[str]) -> dict[str, list[str]]:
    return {
        "get": [f"{WORKLOADS_PATH}/{workload_id}" for workload_id in ids],
        "list": [f"{WORKLOADS_PATH}?limit=100"],
        "events": [f"{WORKLOADS_PATH}/{workload_id}/events" for workload_id in ids],
        "account": [f"{WORKLOADS_PATH}/{workload_id}/account" for workload_id in ids],
    }


def record(
    values: dict[str, list[float]], who: str, door: Door, pid: int, asked: dict[str, list[str]], seconds: float
) -> None:
    """Requests per second by one client and by many, and the CPU time of one."""
    for what, where in asked.items():
        requests = [door.request("GET", path) for path in where]
        for clients in CLIENTS:
            before_ms, began = cpu_ms([pid]), perf_counter()
            replies = list(in_turn(door, lasting(requests, seconds))) if clients == 1 else None
            replies = at_once(door, lasting(requests, seconds), clients) if replies is None else replies
            for reply in replies:
                reply.checked()
            values[f"{who}.{what}.{clients}"].append(len(replies) / (perf_counter() - began))
            values[f"{who}.{what}.{clients}.cpu"].append((cpu_ms([pid]) - before_ms) / len(replies))


def lasting(requests: Sequence[bytes], seconds: float) -> Iterator[bytes]:
    """Over and over, for so long."""
    until = perf_counter() + seconds
    return itertools.takewhile(lambda _: perf_counter() < until, itertools.cycle(requests))


def figures(values: dict[str, list[float]]) -> list[Figure]:
    lines = []
    for key, measured in values.items():
        who, what, clients, *rest = key.split(".")
        unit = "CPU ms each" if rest else "/s"
        floor = values.get(key.replace("placet", "floor")) if who == "placet" else None
        title = f"{who}: {what}, {clients} client" + ("s" if clients != "1" else "")
        against = ratios(measured, floor) if floor else None
        lines.append(Figure(what=title, unit=unit, spread=spread(measured), ratio=against, against="the floor"))
    return lines


@contextmanager
def bare(rows: int) -> Iterator[tuple[Door, int]]:
    """The floor's server, filled and listening."""
    folder = Path(tempfile.mkdtemp(prefix="placet-bench-bare-"))
    process = subprocess.Popen([sys.executable, "-c", "from bench.bare import main; main()", str(folder), str(rows)])
    try:
        door = Door(address=str(folder / "server.sock"), token=None)
        deadline = perf_counter() + START_WITHIN_S
        while not answers(door):
            if process.poll() is not None or perf_counter() > deadline:
                raise RuntimeError("the floor's server did not start")
            time.sleep(0.02)
        yield door, process.pid
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def answers(door: Door) -> bool:
    try:
        door.connect().close()
    except (FileNotFoundError, ConnectionError):
        return False
    return True


if __name__ == "__main__":
    main()
