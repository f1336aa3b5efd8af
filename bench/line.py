"""The whole line beside its floors, in the same run, turn by turn: `python -m bench.line`.

A round measures the floors, then Placet, on the same disk and under the same load of the machine; ratios are taken
round by round. Submit rates are taken while the only slot is busy, so that accepting is all that happens; throughput
is from the first submit to the last end, with everything in between.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.databases import Database, database
from bench.floors import commits_per_s, durable, durable_in_turn, spawn_per_s
from bench.machine import disk_flushes
from bench.report import Figure, finish, number, percentile, print_rows, ratios, say, spread
from bench.server import Server, running
from bench.traffic import finished, submit, submit_for, trivial

DATABASES = ("sqlite", "postgresql")
LANES = 2
CLIENTS = 32
MEGABYTE = 1_000_000
OCCUPY_S = 600

Values = Mapping[str, Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How long and how much."""

    seconds: float
    rounds: int
    workloads: int
    in_turn: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the table: the figure's key, and the floor it is held against."""

    key: str
    what: str
    unit: str
    floor: str = ""


LINES = (
    Line(key="floor.spawn", what="floor: spawn and wait", unit="/s"),
    Line(key="floor.commit", what="floor: durable commits, one connection", unit="/s"),
    Line(key="floor.complete", what=f"floor: durable runner, {LANES} lanes", unit="complete/s"),
    Line(key="floor.p50", what="floor: durable runner in turn, p50", unit="ms"),
    Line(key="floor.p95", what="floor: durable runner in turn, p95", unit="ms"),
    Line(key="floor.cpu", what="floor: durable runner", unit="CPU ms each"),
    Line(key="floor.flushes", what="floor: durable runner", unit="disk flushes each"),
    Line(key="submit.1", what="submit over HTTP, 1 client", unit="/s", floor="floor.commit"),
    Line(key=f"submit.{CLIENTS}", what=f"submit over HTTP, {CLIENTS} clients", unit="/s", floor="floor.commit"),
    Line(key="submit.p50", what="submit over HTTP, 1 client, p50", unit="ms"),
    Line(key="complete", what="submit to complete", unit="complete/s", floor="floor.complete"),
    Line(key="p50", what="submit to finished in turn, p50", unit="ms", floor="floor.p50"),
    Line(key="p95", what="submit to finished in turn, p95", unit="ms", floor="floor.p95"),
    Line(key="cpu", what="server, supervisor and programs", unit="CPU ms each", floor="floor.cpu"),
    Line(key="flushes", what="whole machine while completing", unit="disk flushes each", floor="floor.flushes"),
    Line(key="rss.server", what="server, peak", unit="MB resident"),
    Line(key="rss.supervisor", what="supervisor, peak", unit="MB resident"),
)
FLOOR_NAMES = {
    "floor.commit": "commits",
    "floor.complete": "durable floor",
    "floor.p50": "floor",
    "floor.p95": "floor",
    "floor.cpu": "floor",
    "floor.flushes": "floor",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--database", choices=(*DATABASES, "both"), default="both")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each rate that is measured by time")
    parser.add_argument("--rounds", type=int, default=3, help="floor and Placet in turn, so many times")
    parser.add_argument("--workloads", type=int, default=1000, help="how many are completed in a round")
    parser.add_argument("--in-turn", type=int, default=200, help="how many are completed one after the other")
    given = parser.parse_args()
    options = Options(seconds=given.seconds, rounds=given.rounds, workloads=given.workloads, in_turn=given.in_turn)
    tables = {}
    for name in DATABASES if given.database == "both" else (given.database,):
        with database(name) as found:
            if found is not None:
                tables[f"The line on {name}"] = figures(rounds(found, options))
    print_aims(tables)
    facts = vars(given) | {"lanes": LANES, "clients": CLIENTS}
    finish("line", tables, facts, given.json)


def rounds(found: Database, options: Options) -> Values:
    values: dict[str, list[float]] = defaultdict(list)
    for turn in range(options.rounds):
        for title, measure in (("floors", floors), ("submitting", submitting), ("completing", completing)):
            say(f"{found.name}: round {turn + 1} of {options.rounds}, {title}")
            for key, value in measure(found, options).items():
                values[key].append(value)
    return values


def floors(found: Database, options: Options) -> dict[str, float]:
    taken_ms = durable_in_turn(found.fresh_ledger(), found.folder, options.in_turn)
    runner = durable(found.fresh_ledger(), found.folder, options.workloads, LANES)
    return {
        "floor.spawn": spawn_per_s(options.seconds),
        "floor.commit": commits_per_s(found.fresh_ledger()(), options.seconds),
        "floor.complete": runner.complete_per_s,
        "floor.p50": percentile(taken_ms, 0.5),
        "floor.p95": percentile(taken_ms, 0.95),
        "floor.cpu": runner.cpu_ms,
        "floor.flushes": runner.flushes,
    }


def submitting(found: Database, options: Options) -> dict[str, float]:
    """Into a server whose only slot is busy: what is accepted waits."""
    with running(found.fresh_url(), {"PLACET_LOCAL__SLOTS": "1"}) as server:
        submit(server.door, trivial("/bin/sleep", str(OCCUPY_S)), 1)
        alone_per_s, replies = submit_for(server.door, trivial(), options.seconds, 1)
        many_per_s, _ = submit_for(server.door, trivial(), options.seconds, CLIENTS)
        return {
            "submit.1": alone_per_s,
            f"submit.{CLIENTS}": many_per_s,
            "submit.p50": percentile([reply.elapsed_ms for reply in replies], 0.5),
        }


def completing(found: Database, options: Options) -> dict[str, float]:
    with running(found.fresh_url()) as server:
        finished(server.door, submit(server.door, trivial(), LANES))  # the first ones warm the server up
        taken_ms = in_turn(server, options.in_turn)
        cpu_ms, flushes, began = server.cpu_ms(), disk_flushes(), perf_counter()
        finished(server.door, submit(server.door, trivial(), options.workloads, CLIENTS))
        elapsed_s = perf_counter() - began
        memory = server.memory()
        return {
            "complete": options.workloads / elapsed_s,
            "p50": percentile(taken_ms, 0.5),
            "p95": percentile(taken_ms, 0.95),
            "cpu": (server.cpu_ms() - cpu_ms) / options.workloads,
            "flushes": (disk_flushes() - flushes) / options.workloads,
        } | {f"rss.{process}": held.peak_bytes / MEGABYTE for process, held in memory.items()}


def in_turn(server: Server, count: int) -> list[float]:
    """Milliseconds from sending one workload to knowing its end, one after the other."""
    taken_ms = []
    for _ in range(count):
        began = perf_counter()
        finished(server.door, submit(server.door, trivial(), 1))
        taken_ms.append((perf_counter() - began) * 1000)
    return taken_ms


def figures(values: Values) -> list[Figure]:
    lines = []
    for line in LINES:
        if line.key in values:
            measured = values[line.key]
            against = ratios(measured, values[line.floor]) if line.floor else None
            name = FLOOR_NAMES.get(line.floor, "")
            lines.append(Figure(what=line.what, unit=line.unit, spread=spread(measured), ratio=against, against=name))
    return lines


def print_aims(tables: Mapping[str, Sequence[Figure]]) -> None:
    """The figures we hold ourselves to, and where this run stands."""
    aims: tuple[tuple[str, str, str, Callable[[Figure], float], float, bool], ...] = (
        ("submit to complete", "complete/s", "share of the durable floor", _ratio, 0.4, True),
        ("submit to finished in turn, p50", "ms", "ms", _median, 5.0, False),
        ("submit to finished in turn, p95", "ms", "ms", _median, 10.0, False),
        ("server, supervisor and programs", "CPU ms each", "CPU ms each", _median, 2.5, False),
        ("submit over HTTP, 1 client", "/s", "/s", _median, 1000.0, True),
        (f"submit over HTTP, {CLIENTS} clients", "/s", "/s", _median, 4000.0, True),
    )
    rows = [("aim", "wanted", "here", "unit", "")]
    for what, unit, shown, read, bound, at_least in aims:
        for title, lines in tables.items():
            for figure in lines:
                if (figure.what, figure.unit) == (what, unit):
                    value = read(figure)
                    met = value >= bound if at_least else value <= bound
                    sign = ">=" if at_least else "<="
                    where = title.rpartition(" ")[2]
                    mark = "met" if met else "not met"
                    rows.append((f"{what}, {where}", f"{sign} {number(bound)}", number(value), shown, mark))
    print_rows("Aims", rows)


def _ratio(figure: Figure) -> float:
    return figure.ratio.median if figure.ratio else 0.0


def _median(figure: Figure) -> float:
    return figure.spread.median


if __name__ == "__main__":
    main()
