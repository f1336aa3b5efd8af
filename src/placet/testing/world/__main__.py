"""``python -m placet.testing.world``: run seeds, and tell of one that fails all there is to know of it."""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

from placet.testing.world.answers import MANY, rare
from placet.testing.world.hunting import Hunt, hunt
from placet.testing.world.mutants import MUTANTS
from placet.testing.world.options import Options, draw
from placet.testing.world.reduce import reduced
from placet.testing.world.saved import read, write
from placet.testing.world.seeds import run
from placet.testing.world.simulate import Report, simulate

LINES = 60
TOLD_MAX = 3


def main() -> int:
    """0 when nothing was violated and, in many worlds, every situation was met often enough; else 1."""
    parser = argparse.ArgumentParser(prog="python -m placet.testing.world", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds to live through")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=1, help="how many at a time")
    parser.add_argument("--seed", type=int, help="this one world only, with its last events")
    parser.add_argument("--saved", type=Path, help="the world of this file, with its last events")
    parser.add_argument("--reduce", action="store_true", help="make a failing world smaller before telling of it")
    parser.add_argument("--save", type=Path, help="keep the failing world in this file")
    parser.add_argument("--reason", default="", help="why it is kept")
    parser.add_argument("--lines", type=int, default=LINES, help="how many of the last events to tell")
    parser.add_argument("--mutants", nargs="*", metavar="NAME", help="hunt these mutants of the engine, or all")
    parser.add_argument("--enough", type=int, default=1, help="a mutant that was caught so often needs no more worlds")
    parser.add_argument("--rates", action="store_true", help="live through all worlds of each mutant: how often")
    arguments = parser.parse_args()
    if arguments.mutants is not None:
        return _hunt(arguments)
    if arguments.seed is not None or arguments.saved is not None:
        options = draw(arguments.seed) if arguments.saved is None else read(arguments.saved).options
        return _one(options, arguments)
    tally = run(range(arguments.first, arguments.first + arguments.seeds), processes=arguments.processes)
    for report in tally.failing[:TOLD_MAX]:
        _tell(reduced(report) if arguments.reduce else report, arguments.lines)
    for line in tally.lines():
        _say(line)
    if tally.failing:
        _say("failing seeds: " + " ".join(str(report.options.seed) for report in tally.failing))
    return 1 if tally.failing or (tally.seeds >= MANY and rare(tally.met, tally.seeds)) else 0


def _hunt(arguments: argparse.Namespace) -> int:
    names = arguments.mutants or list(MUTANTS)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    enough = arguments.seeds if arguments.rates else arguments.enough
    surviving = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for found in pool.map(_hunted, names, repeat(seeds), repeat(enough)):
            _tell_hunt(found)
            if not found.caught:
                surviving.append(found.mutant)
    if surviving:
        _say("surviving: " + ", ".join(surviving))
    return 1 if surviving else 0


def _hunted(name: str, seeds: range, enough: int) -> Hunt:
    return hunt(MUTANTS[name], seeds, enough=enough)


def _tell_hunt(found: Hunt) -> None:
    rules = ", ".join(found.rules) or "SURVIVES"
    _say(f"{found.mutant:22} in {len(found.caught)} of {found.lived} worlds ({100 * found.rate:.0f}%): {rules}")
    if found.caught:
        _say(f"{'':22} first in {found.caught[0]}, 95 % sure after {found.seeds_for(0.95)}")
    if found.crashed:
        _say(f"{'':22} it does not run at all in {list(found.crashed)}")
    if found.unsound:
        _say(f"{'':22} as it is, the engine fails in {list(found.unsound)}")


def _one(options: Options, arguments: argparse.Namespace) -> int:
    report = simulate(options)
    if report.violations and arguments.reduce:
        report = reduced(report)
    if report.violations and arguments.save is not None:
        write(arguments.save, arguments.reason, report.options)
    _tell(report, arguments.lines)
    return 1 if report.violations else 0


def _tell(report: Report, lines: int) -> None:
    for line in (*report.options.lines(), *report.lines[-lines:]):
        _say(line)
    for violation in report.violations:
        _say(f"VIOLATED {violation.rule} at {violation.at_s:.3f} s: {violation.what}")
    _say(f"digest {report.digest}; again: make sim SEED={report.options.seed}")
    _say("")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
