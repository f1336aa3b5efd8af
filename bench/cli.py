"""What a person waits for and what an idle server holds: `python -m bench.cli [--json] [--rounds N]`."""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.report import Figure, finish, ratios, say, spread
from bench.server import running

PLACET = str(Path(sys.executable).with_name("placet"))
BARE = (sys.executable, "-I", "-c", "pass")
COMMANDS = (("--version",), ("--help",), ("ls", "--help"))
IDLE_S = 5.0
MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Start:
    """One command, start to end. CPU time hardly depends on what else runs here."""

    elapsed_ms: float
    cpu_ms: float

    def elapsed(self) -> float:
        return self.elapsed_ms

    def cpu(self) -> float:
        return self.cpu_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--rounds", type=int, default=10, help="how often each command is started")
    options = parser.parse_args()
    figures = {"Commands, start to end": commands(options.rounds), "The server": idle_server()}
    finish("cli", figures, {"rounds": options.rounds, "idle_s": IDLE_S}, options.json)


def commands(rounds: int) -> list[Figure]:
    started(BARE)  # the first start reads the disk
    floor: list[Start] = []
    ours: dict[tuple[str, ...], list[Start]] = {arguments: [] for arguments in COMMANDS}
    for turn in range(rounds):
        say(f"commands: round {turn + 1} of {rounds}")
        floor.append(started(BARE))
        for arguments, values in ours.items():
            values.append(started((PLACET, *arguments)))
    figures = [
        Figure(what="python -I -c pass", unit="ms", spread=spread([start.elapsed_ms for start in floor])),
        Figure(what="python -I -c pass", unit="CPU ms", spread=spread([start.cpu_ms for start in floor])),
    ]
    for arguments, values in ours.items():
        what = f"placet {' '.join(arguments)}"
        for unit, read in (("ms", Start.elapsed), ("CPU ms", Start.cpu)):
            measured = [read(start) for start in values]
            against = ratios(measured, [read(start) for start in floor])
            figures.append(Figure(what=what, unit=unit, spread=spread(measured), ratio=against, against="bare Python"))
    return figures


def started(command: Sequence[str]) -> Start:
    began = perf_counter()
    null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(command[0], list(command), {"PATH": os.environ["PATH"], "HOME": "/"}, file_actions=null)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return Start(elapsed_ms=(perf_counter() - began) * 1000, cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000)


def idle_server(rounds: int = 3) -> list[Figure]:
    values: dict[str, list[float]] = defaultdict(list)
    for turn in range(rounds):
        say(f"idle server: round {turn + 1} of {rounds}")
        with running() as server:
            before_ms = server.cpu_ms()
            time.sleep(IDLE_S)
            values["ready, fresh data folder|s"].append(server.ready_s)
            values["ready, fresh data folder|CPU ms"].append(before_ms)
            values["idle, all processes|CPU ms per s"].append((server.cpu_ms() - before_ms) / IDLE_S)
            for name, held in server.memory().items():
                values[f"idle, {name}|MB resident"].append(held.now_bytes / MEGABYTE)
    return [
        Figure(what=key.partition("|")[0], unit=key.partition("|")[2], spread=spread(measured))
        for key, measured in values.items()
    ]


if __name__ == "__main__":
    main()
