"""A flood of log through the local provider: `python -m bench.logs [--json]`.

One workload writes 1 GB of random bytes and then one line of 100 MB. Twice: nobody looks, and a client follows the
log over HTTP. What counts is that memory stays flat and that the log is sealed with every byte accounted for.
"""

import argparse
import subprocess
import threading
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

from bench.http import Json, in_turn, stream_end
from bench.machine import forget_peak, memory
from bench.report import Figure, finish, print_rows, ratios, say, spread
from bench.server import Server, running
from bench.traffic import STREAM_END, WORKLOADS_PATH, finished, submit, trivial

MEGABYTE = 1_000_000
LINE_BYTES = 100 * MEGABYTE
LOG_LIMIT = "8GB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--megabytes", type=int, default=1000, help="random bytes before the long line")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    command = flood(given.megabytes * MEGABYTE)
    expected = given.megabytes * MEGABYTE + LINE_BYTES + 1
    values: dict[str, list[float]] = defaultdict(list)
    seals: list[Json] = []
    for turn in range(given.rounds):
        say(f"round {turn + 1} of {given.rounds}: floor")
        values["floor"].append(expected / MEGABYTE / floor_s(command))
        for reader in (False, True):
            say(f"round {turn + 1} of {given.rounds}: placet, {'followed' if reader else 'nobody looks'}")
            with running(settings={"PLACET_LOCAL__LOG_LIMIT": LOG_LIMIT}) as server:
                found, sealed = measure(server, command, expected, followed=reader)
            seals += sealed
            for key, value in found.items():
                values[f"{key}.{'followed' if reader else 'alone'}"].append(value)
    print_seals(seals, expected)
    finish("logs", {"A log of 1 GB and a line of 100 MB": figures(values)}, vars(given) | {"seals": seals}, given.json)


def flood(random_bytes: int) -> list[str]:
    script = f"head -c {random_bytes} /dev/urandom; head -c {LINE_BYTES} /dev/zero | tr '\\0' x; echo"
    return ["/bin/sh", "-c", script]


def floor_s(command: list[str]) -> float:
    """The same program with its output in a file."""
    with TemporaryDirectory(prefix="placet-bench-floor-") as folder, Path(folder, "log").open("wb") as log:
        began = perf_counter()
        subprocess.run(command, stdout=log, check=True)
        return perf_counter() - began


def measure(
    server: Server, command: list[str], expected: int, *, followed: bool
) -> tuple[dict[str, float], list[Json]]:
    finished(server.door, submit(server.door, trivial(), 2))
    pids = server.processes()
    before = {name: memory(pid).now_bytes for name, pid in pids.items()}
    for pid in pids.values():
        forget_peak(pid)
    began = perf_counter()
    ids = submit(server.door, trivial(*command), 1)
    if followed:
        path = f"{WORKLOADS_PATH}/{ids[0]}/logs"
        reader = threading.Thread(target=stream_end, args=(server.door, path, STREAM_END))
        reader.start()
        finished(server.door, ids)
        reader.join()
    else:
        finished(server.door, ids)
    found = {"rate": expected / MEGABYTE / (perf_counter() - began)}
    for name, pid in pids.items():
        found[f"{name}.before"] = before[name] / MEGABYTE
        found[f"{name}.peak"] = memory(pid).peak_bytes / MEGABYTE
    return found, seals_of(server, ids[0])


def seals_of(server: Server, workload_id: str) -> list[Json]:
    request = server.door.request("GET", f"{WORKLOADS_PATH}/{workload_id}/attempts")
    attempts = next(in_turn(server.door, [request])).checked().json()["items"]
    return [seal for attempt in cast("list[dict[str, list[Json]]]", attempts) for seal in attempt["logs"]]


def figures(values: dict[str, list[float]]) -> list[Figure]:
    lines = [Figure(what="floor: the same program into a file", unit="MB/s", spread=spread(values["floor"]))]
    for case in ("alone", "followed"):
        rate = values[f"rate.{case}"]
        against = ratios(rate, values["floor"])
        title = "nobody looks" if case == "alone" else "followed over HTTP"
        lines.append(Figure(what=title, unit="MB/s", spread=spread(rate), ratio=against, against="the floor"))
        for process in ("server", "supervisor"):
            for moment in ("before", "peak"):
                found = values.get(f"{process}.{moment}.{case}")
                if found:
                    what = f"{title}, {process} {moment}"
                    lines.append(Figure(what=what, unit="MB resident", spread=spread(found)))
    return lines


def print_seals(seals: list[Json], expected: int) -> None:
    rows = [("stream", "bytes in all", "kept", "sealed", "")]
    for seal in seals:
        wanted = expected if seal["stream"] == "stdout" else 0
        verdict = "right" if seal["sealed"] and seal["bytes_total"] == wanted else f"WRONG: {wanted} expected"
        kept = cast("int", seal["bytes_kept"])
        rows.append((str(seal["stream"]), f"{seal['bytes_total']:,}", f"{kept:,}", str(seal["sealed"]), verdict))
    print_rows("Seals", rows)


if __name__ == "__main__":
    main()
