"""A list of faults, lived through by Placet and by the loop that most articles show: `python -m bench.faults`.

Both speak to the same simulated provider, over the same wire, with the same seeds, workloads and times. What is counted
comes from what really happened there, never from what either believes. Time is virtual; the engine and the store are
the real ones.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import repeat

from bench.naive import CANCELLED, NO_MACHINE, SUCCEEDED, NaiveLoop
from bench.report import machine as this_machine
from bench.report import print_rows, say, versions
from placet.domain.failures import Cause
from placet.domain.records import Workload
from placet.domain.states import WorkloadState
from placet.testing.world.chance import Streams
from placet.testing.world.cloud import Machine, Watcher
from placet.testing.world.options import Options, Wish
from placet.testing.world.serving import World
from placet.testing.world.simulate import live, serve

SEEDS = 10
SHORT_SEEDS = 1
WORKLOADS = 8
FAULTS_S = 300.0
# So long after the last word everything that was asked for has come to pass.
SETTLE_S = 3600.0
PER = 1000


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One fault of the list: its kinds in the simulated world, each so much stronger than its middle strength."""

    name: str
    what: str
    faults: Mapping[str, float] = field(default_factory=dict)
    card: str = "keyless"
    workers: int = 1
    short: bool = False


def _one(name: str, what: str, strength: float = 2.0, *, short: bool = False, **more: object) -> Scenario:
    return Scenario(name=name, what=what, faults={name: strength}, short=short, **more)  # type: ignore[arg-type]  # named fields of Scenario


SCENARIOS = (
    Scenario(name="none", what="nothing goes wrong", short=True),
    _one("error_before", "a call fails before it has any effect"),
    _one("lost_request", "a create never arrives and is never answered", 4.0),
    _one("lost_reply", "a call takes effect and its answer is lost", short=True),
    _one("late_create", "a create takes effect up to a minute after the call was given up", 4.0, short=True),
    Scenario(
        name="late_unbounded",
        what="the same, where the provider does not say how late",
        faults={"late_create": 4.0},
        card="no_bound",
    ),
    Scenario(
        name="lost_unbounded",
        what="a create never arrives, and the provider does not say how late one may",
        faults={"lost_request": 4.0},
        card="no_bound",
    ),
    _one("lag", "what was made is invisible for a while", 3.0),
    _one("stale_read", "one look does not find what is there", 5.0),
    _one("read_error", "looks fail", 3.0),
    _one("unknown_state", "a state is told that nobody has heard of", 5.0),
    _one("slow_wire", "answers take seconds", 5.0),
    _one("rate_limit", "calls are refused for being too many", 4.0),
    _one("no_capacity", "there is none of it now"),
    _one("quota", "no more is allowed", 4.0),
    _one("token_expired", "the credentials are refused for a while", 4.0),
    _one("dark", "nobody gets through for up to an hour", 20.0),
    _one("stop_ignored", "a stop is accepted and nothing stops", 4.0),
    _one("stop_refused", "a stop is refused while a machine is made", 5.0),
    _one("release_refused", "a deletion is refused", 4.0, short=True),
    _one("preempted", "machines are taken away", 2.0),
    _one("vanished", "machines are gone without a trace", 4.0),
    Scenario(
        name="restarted",
        what="the provider starts an ended program again by itself",
        faults={"restarted": 4.0},
        card="restarting",
    ),
    _one("bad_host", "machines break before the program starts", 5.0),
    _one("never_boots", "machines are never ready", 4.0),
    _one("slow_boot", "machines are ready minutes late", 5.0),
    _one("report_lost", "news of machines gets lost", 5.0),
    _one("report_delayed", "news of machines comes minutes late", 5.0),
    _one("crash", "the control process dies and comes back", 5.0, short=True),
    _one("pause", "the control process stands still", 20.0),
    _one("upload_cut", "moving an output breaks off", 4.0),
    _one("digest_mismatch", "what arrives is not what was sent", 10.0),
    Scenario(
        name="several",
        what="lost replies, late creates, stale looks, failed looks, ignored stops, lost machines and crashes together",
        faults=dict.fromkeys(
            ("lost_reply", "late_create", "stale_read", "read_error", "stop_ignored", "vanished", "crash"), 1.0
        ),
        workers=2,
    ),
)
COLUMNS = ("duplicates", "orphans", "false_deaths", "lost_logs", "lost_outputs", "wrong_class", "no_end")


@dataclass(kw_only=True)
class Truth(Watcher):
    """What happened at the provider, heard beside whoever else listens."""

    world: World
    heard: Watcher | None
    wrong: dict[str, set[str]] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    def landed(self, machine: Machine) -> None:
        if any(other.live for other in self.world.cloud.of(machine.workload_id) if other is not machine):
            self._count("false_deaths", machine.workload_id)
        if self.heard is not None:
            self.heard.landed(machine)

    def code_started(self, machine: Machine) -> None:
        others = [other for other in self.world.cloud.of(machine.workload_id) if other is not machine]
        if any(other.code_s is not None or other.computed for other in others) or machine.computed:
            self._count("duplicates", machine.workload_id)
        if machine.workload_id in self.told:
            self._count("false_deaths", machine.workload_id)
        if self.heard is not None:
            self.heard.code_started(machine)

    def deleted(self, machine: Machine, asked: bool) -> None:
        if self.heard is not None:
            self.heard.deleted(machine, asked)

    def end(self, workload_id: str, word: str) -> None:
        """Whoever drives it says that it is over, and how."""
        self.told[workload_id] = word
        if any(machine.code_s is not None for machine in self.world.cloud.of(workload_id)):
            self._count("false_deaths", workload_id)

    def _count(self, column: str, workload_id: str) -> None:
        self.wrong.setdefault(column, set()).add(workload_id)

    def sums(self, wishes: Mapping[str, Wish]) -> Counter[str]:
        """All columns; ``wishes`` are the workloads that were accepted, by the id that they have at the provider."""
        for workload_id, wish in wishes.items():
            self._judge(workload_id, wish)
        sums = Counter({column: len(self.wrong.get(column, ())) for column in COLUMNS})
        sums["orphans"] = sum(machine.deleted_s is None for machine in self.world.cloud.machines.values())
        return sums

    def _judge(self, workload_id: str, wish: Wish) -> None:
        word = self.told.get(workload_id)
        if word is None:
            self._count("no_end", workload_id)
        machines = self.world.cloud.of(workload_id)
        computed = [machine for machine in machines if machine.computed]
        broke = [machine for machine in machines if machine.seen.exit_code]
        if word != CANCELLED:
            by_itself = bool(computed or broke)
            if by_itself and not self._kept(workload_id, "logs/stdout"):
                self._count("lost_logs", workload_id)
            if computed and not all(self._kept(workload_id, f"outputs/out{number}") for number in range(wish.outputs)):
                self._count("lost_outputs", workload_id)
        if word is not None and word not in _true_words(computed, broke):
            self._count("wrong_class", workload_id)

    def _kept(self, workload_id: str, name: str) -> bool:
        return any(f"/{workload_id}/" in place and place.endswith(f"/{name}") for place in self.world.kept.objects)


def _true_words(computed: Sequence[Machine], broke: Sequence[Machine]) -> frozenset[str]:
    """What may be said of a workload whose programs ended so. A cancel is its owner's own word, and always true."""
    if computed:
        return frozenset({SUCCEEDED, CANCELLED, UNDELIVERED})
    return frozenset({CANCELLED, FAILED_PROGRAM if broke else NO_MACHINE})


UNDELIVERED = "not delivered"
FAILED_PROGRAM = "failed"


def options_of(scenario: Scenario, seed: int) -> Options:
    """The world of a scenario: its faults, and workloads that depend on the seed alone."""
    chance = Streams(seed).of("bench wishes")
    wishes = tuple(
        Wish(
            name=f"w{number}",
            at_s=round(chance.random() * 120, 3),
            runs_s=round(20 + chance.random() * 100, 3),
            exit_code=3 if number == 1 else 0,
            outputs=1,
            infrastructure_attempts=6,
            cancel_at_s=round(10 + chance.random() * 60, 3) if number == 0 else None,
        )
        for number in range(WORKLOADS)
    )
    return Options(
        seed=seed,
        card=scenario.card,
        faults=scenario.faults,
        workers=scenario.workers,
        faults_s=FAULTS_S,
        wishes=wishes,
    )


def _word(workload: Workload) -> str:
    """Placet's verdict in the words of the table."""
    cause = None if workload.failure is None else workload.failure.cause
    match workload.state:
        case WorkloadState.SUCCEEDED:
            return SUCCEEDED
        case WorkloadState.CANCELLED:
            return CANCELLED
        case _ if cause is Cause.EXIT_CODE:
            return FAILED_PROGRAM
        case _ if cause is Cause.DELIVERY:
            return UNDELIVERED
        case _:
            return NO_MACHINE


def placet(scenario: Scenario, seed: int) -> Counter[str]:
    """One world with Placet in it."""
    found: list[Counter[str]] = []

    async def life(world: World) -> None:
        truth = Truth(world=world, heard=world.cloud.watcher)
        world.cloud.watcher = truth
        hear = world.disk.database.committed

        def committed(workload_ids: frozenset[str]) -> None:
            hear(workload_ids)
            for record in world.disk.database.records(sorted(workload_ids)):
                if record.workload.final and record.workload.id not in truth.told:
                    truth.end(record.workload.id, _word(record.workload))

        world.disk.database.committed = committed
        await serve(world)
        found.append(truth.sums(world.oracle.wishes))
        found[0]["accepted"] = len(world.oracle.wishes)

    live(options_of(scenario, seed), life)
    return found[0]


def naive(scenario: Scenario, seed: int) -> Counter[str]:
    """The same world with the loop in it."""
    found: list[Counter[str]] = []

    async def life(world: World) -> None:
        truth = Truth(world=world, heard=None)
        world.cloud.watcher = truth
        drives = asyncio.ensure_future(NaiveLoop(world, truth.end).run())
        await asyncio.sleep(FAULTS_S)
        world.faults.on = False
        await asyncio.wait([drives], timeout=SETTLE_S)
        await asyncio.sleep(SETTLE_S)
        if drives.done():
            drives.result()
        found.append(truth.sums({wish.name: wish for wish in world.options.wishes}))
        found[0]["accepted"] = len(world.options.wishes)

    live(options_of(scenario, seed), life)
    return found[0]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One scenario for both, in workloads (machines for orphans) of ``accepted``."""

    scenario: str
    placet: Mapping[str, int]
    naive: Mapping[str, int]


def line(scenario: Scenario, seeds: Iterable[int]) -> Line:
    """All worlds of one scenario."""
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    for seed in seeds:
        ours.update(placet(scenario, seed))
        theirs.update(naive(scenario, seed))
    return Line(scenario=scenario.name, placet=dict(ours), naive=dict(theirs))


def gates(lines: Sequence[Line]) -> list[str]:
    """What must hold: nothing of it happens to Placet, and the list is one that harms somebody who is careless."""
    broken = [
        f"{one.scenario}: {one.placet[column]} {column.replace('_', ' ')}"
        for one in lines
        for column in ("duplicates", "orphans", "false_deaths", "wrong_class")
        if one.placet.get(column)
    ]
    harmless = [column for column in ("duplicates", "orphans") if not sum(one.naive.get(column, 0) for one in lines)]
    return broken + [f"the list shows no {column} of the naive loop: it is blind" for column in harmless]


def table(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """Per 1,000 workloads, Placet first."""
    rows = [("per 1,000 workloads: Placet / naive loop", *(column.replace("_", " ") for column in COLUMNS))]
    both: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for one in lines:
        rows.append((one.scenario, *_cells(one.placet, one.naive)))
        both[0].update(one.placet)
        both[1].update(one.naive)
    rows.append(("all", *_cells(*both)))
    return rows


def _cells(ours: Mapping[str, int], theirs: Mapping[str, int]) -> list[str]:
    def per(counts: Mapping[str, int], column: str) -> int:
        return round(PER * counts.get(column, 0) / max(counts.get("accepted", 0), 1))

    return [f"{per(ours, column)} / {per(theirs, column)}" for column in COLUMNS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="worlds of each scenario")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--scenario", action="append", default=[], help="only these")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--short", action="store_true", help="a few scenarios of one world each")
    parser.add_argument("--list", action="store_true", help="tell the list of faults and end")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    asked = parser.parse_args()
    if asked.list:
        print_rows("The list", [("name", "what happens"), *((one.name, one.what) for one in SCENARIOS)])
        return 0
    chosen = [one for one in SCENARIOS if (one.short or not asked.short) and asked.scenario in ([], [one.name])]
    seeds = range(asked.first, asked.first + (SHORT_SEEDS if asked.short else asked.seeds))
    lines = []
    with ProcessPoolExecutor(asked.processes) as pool:
        for done in pool.map(line, chosen, repeat(seeds)):
            say(f"{done.scenario}: {dict(done.placet)} / {dict(done.naive)}")
            lines.append(done)
    print_rows(f"Seeds {seeds.start} to {seeds.stop - 1}, {WORKLOADS} workloads each", table(lines))
    broken = gates(lines)
    for gate in broken:
        print(f"GATE {gate}")
    if asked.json:
        facts = {"short": asked.short, "seeds": [seeds.start, seeds.stop - 1], "workloads_per_seed": WORKLOADS}
        document = {
            "bench": "faults",
            "machine": this_machine(),
            "versions": versions(),
            "facts": facts,
            "list": {one.name: one.what for one in chosen},
            "lines": [asdict(one) for one in lines],
        }
        print(json.dumps(document, separators=(",", ":"), default=str))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
