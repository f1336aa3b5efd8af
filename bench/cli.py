"""What a person waits for and what an idle server holds: `python -m bench.cli [--json] [--rounds N]`."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from bench.report import Figure, finish, ratios, say, spread
from bench.server import running

PLACET = str(Path(sys.executable).with_name("placet"))
BARE = (sys.executable, "-I", "-c", "pass")
COMMANDS = (("--version",), ("--help",), ("ls", "--help"))
IDLE_S = 5.0
MEGABYTE = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--rounds", type=int, default=10, help="how often each command is started")
    options = parser.parse_args()
    figures = {"Commands, start to end": commands(options.rounds), "The server": idle_server()}
    finish("cli", figures, {"rounds": options.rounds, "idle_s": IDLE_S}, options.json)


def commands(rounds: int) -> list[Figure]:
    taken_ms(BARE)  # the first start reads the disk
    floor: list[float] = []
    ours: dict[tuple[str, ...], list[float]] = {arguments: [] for arguments in COMMANDS}
    for turn in range(rounds):
        say(f"commands: round {turn + 1} of {rounds}")
        floor.append(taken_ms(BARE))
        for arguments, values in ours.items():
            values.append(taken_ms((PLACET, *arguments)))
    figures = [Figure(what="python -I -c pass", unit="ms", spread=spread(floor))]
    for arguments, values in ours.items():
        against = ratios(values, floor)
        what = f"placet {' '.join(arguments)}"
        figures.append(Figure(what=what, unit="ms", spread=spread(values), ratio=against, against="bare Python"))
    return figures


def taken_ms(command: Sequence[str]) -> float:
    began = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": "/"})
    return (perf_counter() - began) * 1000


def idle_server(rounds: int = 3) -> list[Figure]:
    ready_s: list[float] = []
    resident: list[float] = []
    burnt: list[float] = []
    for turn in range(rounds):
        say(f"idle server: round {turn + 1} of {rounds}")
        with running() as server:
            ready_s.append(server.ready_s)
            before_ms = server.cpu_ms()
            time.sleep(IDLE_S)
            burnt.append((server.cpu_ms() - before_ms) / IDLE_S)
            resident.append(sum(held.now_bytes for held in server.memory().values()) / MEGABYTE)
    return [
        Figure(what="ready, fresh data folder", unit="s", spread=spread(ready_s)),
        Figure(what="idle, server and supervisor", unit="MB resident", spread=spread(resident)),
        Figure(what="idle, server and supervisor", unit="CPU ms per s", spread=spread(burnt)),
    ]


if __name__ == "__main__":
    main()
