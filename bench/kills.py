"""Kills a server or a supervisor at every commit and effect, and says what became of it: `python -m bench.kills`.

Each kill has a folder and a database of its own, and a few workloads of every ending. Afterwards none may be lost or
doubled and all must have ended as they do without a kill. Not a figure: a table of what is right.
"""

import argparse
import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.report import machine, print_rows, say
from tests.support.kills import ELSEWHERE, SIDES, Cut, Sweep, Verdict, cuts
from tests.support.postgres import PostgresServer, find_programs, running_server
from tests.support.servers import Nursery

STORES = ("sqlite", "postgresql")
WORKERS = 4


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the kills of one store happen."""

    store: str
    folder: Path
    server: PostgresServer | None = None

    @contextmanager
    def settings(self) -> Iterator[Mapping[str, str]]:
        """What tells a server of its database; that is empty, and gone afterwards."""
        if self.server is None:
            yield {}
            return
        name = self.server.create_database()
        try:
            yield {"PLACET_DATABASE_URL": self.server.url(name)}
        finally:
            self.server.drop_database(name)


def kill(nursery: Nursery, place: Place, number: int, cut: Cut) -> Verdict:
    folder = place.folder / f"{place.store}-{number:04}"  # no name begins another
    with place.settings() as settings:
        verdict = Sweep(nursery=nursery, folder=folder, store=place.store, settings=settings).kill(cut)
    if not verdict.fault:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict


def sweep(nursery: Nursery, places: Sequence[Place], chosen: Sequence[Cut], workers: int) -> list[Verdict]:
    """Several at a time: most of the time of a kill is waiting."""
    numbers = itertools.count(1)
    with ThreadPoolExecutor(workers) as threads:
        doing = [threads.submit(kill, nursery, place, next(numbers), cut) for place in places for cut in chosen]
        verdicts = []
        for done in as_completed(doing):
            verdict = done.result()
            verdicts.append(verdict)
            say(f"{len(verdicts)}/{len(doing)} {verdict.store} {verdict.cut.name}: {verdict.word} {verdict.fault}")
    return verdicts


def table(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """A line for each point, a column for each side and store."""
    stores = [store for store in STORES if any(verdict.store == store for verdict in verdicts)]
    columns = [(store, side) for store in stores for side in SIDES]
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for verdict in verdicts:
        line = found.setdefault(verdict.cut.point, {})
        line.setdefault((verdict.store, verdict.cut.side), []).append(verdict.word)
    rows = [("point", *(f"{side}, {store}" for store, side in columns))]
    order = list(dict.fromkeys(cut.point for cut in cuts()))
    for point in sorted(found, key=order.index):
        rows.append((point, *(" / ".join(sorted(set(found[point].get(column, ["-"])))) for column in columns)))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=(*STORES, "both"), default="both")
    parser.add_argument("--point", action="append", default=[], help="only points whose name contains this")
    parser.add_argument("--passes", type=int, default=1, help="kill at the first so many passes, one by one")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many kills at a time")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    asked = parser.parse_args()
    every = cuts(passes=range(1, asked.passes + 1))
    chosen = [cut for cut in every if not asked.point or any(part in cut.moment for part in asked.point)]
    folder = Path(tempfile.mkdtemp(prefix="placet-kills-"))
    with ExitStack() as stack:
        places = []
        if asked.store != "postgresql":
            places.append(Place(store="sqlite", folder=folder))
        programs = find_programs()
        if asked.store != "sqlite" and programs is None:
            say("postgresql: SKIPPED, no server program (initdb, pg_ctl) on this machine")
        elif asked.store != "sqlite" and programs is not None:
            places.append(
                Place(store="postgresql", folder=folder, server=stack.enter_context(running_server(programs)))
            )
        nursery = Nursery()
        stack.callback(nursery.close)
        verdicts = sweep(nursery, places, chosen, asked.workers)
    return report(verdicts, folder, as_json=asked.json)


def report(verdicts: Sequence[Verdict], folder: Path, *, as_json: bool) -> int:
    print_rows("Killed there, and afterwards everything was", table(verdicts))
    faults = [verdict for verdict in verdicts if verdict.fault]
    missed = [verdict for verdict in verdicts if not verdict.reached]
    print(f"\n{len(verdicts)} kills, {len(faults)} with a fault, {len(missed)} that nothing came by")
    for point, why in ELSEWHERE.items():
        print(f"  not tried here: {point}: {why}")
    for verdict in faults:
        print(f"\n{verdict.store} {verdict.cut.name}\n{verdict.fault}")
    if as_json:
        lines = [
            {"store": one.store, "moment": one.cut.name, "word": one.word, "seconds": round(one.took_s, 1)}
            for one in verdicts
        ]
        print(json.dumps({"bench": "kills", "machine": machine(), "verdicts": lines}, separators=(",", ":")))
    if not faults:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
