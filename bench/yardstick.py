"""Spot with a deadline on recorded traces, beside the published policies and the optimum: `python -m bench.yardstick`.

Three sets: A, the public leaderboard with one zone; B, Table 3 of the paper; C, the leaderboard with many zones, where
every change of zone or kind pays the delay. Gates come first: the simulator has to give published figures exactly. The
policy under test is the stage that the engine asks for real workloads; before a case begins it has seen nothing of it.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.report import machine, print_rows, say, versions
from bench.traces.policies import GREEDY, OPTIMUM, PLACET, RESERVE, UNIFORM_PROGRESS, policies
from bench.traces.running import Ran, run
from bench.traces.scoring import RESAMPLES, SEED, Interval, Score, difference, score
from bench.traces.sets import NINE_ZONES, CaseSet, set_a, set_b, set_c

TUNED_ON = (
    "windows 8 to 73 of the nine-zone file, without every minute that windows 0 to 7 (set C) cover; "
    "nothing of the two-week file (sets A and B)"
)
# Best on-time figures before Placet: a policy has to be below.
TO_BEAT = {"A": 95.29, "B": 102.40, "C": 72.93}
AIMS = {"A": 0.02, "B": 0.05, "C": 0.06}
EXACT, TABLE_3_H = 0.00005, 0.5
SHORT_EVERY = {"A": 9, "B": 9, "C": 3}


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A published figure and what came out here."""

    what: str
    published: float
    found: float
    tolerance: float

    @property
    def holds(self) -> bool:
        return abs(self.published - self.found) <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Result:
    """Everything about one set."""

    cases: CaseSet
    ran: Mapping[str, Ran]
    scores: Mapping[str, Score]

    @property
    def optimum_usd(self) -> float:
        return self.scores[OPTIMUM].usd_per_on_time

    def over_optimum(self, policy: str) -> float:
        return self.scores[policy].usd_per_on_time / self.optimum_usd - 1

    @property
    def against_reserve(self) -> Interval:
        return difference(self.cases, self.ran[PLACET].outcomes, self.ran[RESERVE].outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--short", action="store_true", help="a part of the cases, in under a minute")
    parser.add_argument("--traces", type=Path, default=NINE_ZONES, metavar="FILE", help="another nine-zone file, for C")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="write plots there (needs matplotlib)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many work at once")
    given = parser.parse_args()
    results = {}
    for cases in (set_a(), set_b(), set_c(given.traces)):
        part = part_of(cases) if given.short else cases
        results[cases.name] = measure(part, given.processes)
    found = gates(results, given.processes, full=not given.short, shipped=given.traces == NINE_ZONES)
    print_gates(found)
    for result in results.values():
        print_result(result)
    print(f"\ntuned on: {TUNED_ON}\nbootstrap over pairs and starts: seed {SEED}, {RESAMPLES} resamples")
    if given.plot is not None:
        from bench.traces.plots import draw  # only here: matplotlib is optional

        draw(given.plot, {name: (result.cases, result.ran, result.scores) for name, result in results.items()})
    if given.json:
        print(json.dumps(document(results, found, given), separators=(",", ":"), default=str))
    late = sum(result.scores[PLACET].late for result in results.values())
    sys.exit(0 if all(gate.holds for gate in found) and late == 0 else 1)


def part_of(cases: CaseSet) -> CaseSet:
    """Every so many cases; of set C whole windows, so that each scenario stays."""
    every = SHORT_EVERY[cases.name]
    if not cases.mean_of_groups:
        return replace(cases, cases=cases.cases[::every])
    seen: dict[str, int] = {}
    kept = []
    for case in cases.cases:
        if seen.setdefault(case.group, 0) % every == 0:
            kept.append(case)
        seen[case.group] += 1
    return replace(cases, cases=tuple(kept))


def measure(cases: CaseSet, processes: int) -> Result:
    ran = run(cases, policies(cases.name), processes, say)
    return Result(cases=cases, ran=ran, scores={name: score(cases, found.outcomes) for name, found in ran.items()})


def gates(results: Mapping[str, Result], processes: int, *, full: bool, shipped: bool) -> list[Gate]:
    """What does not need the whole of a set is checked in the short form too."""
    scored = {name: dict(result.scores) for name, result in results.items()}
    if not full:
        for cases in (set_a(), set_b()):
            rules = {name: policies(cases.name)[name] for name in (GREEDY, UNIFORM_PROGRESS)}
            whole = run(cases, rules, processes, say)
            scored[cases.name] |= {name: score(cases, found.outcomes) for name, found in whole.items()}
    found = [
        Gate(what=f"A {name}, USD", published=usd, found=scored["A"][name].usd_per_on_time, tolerance=EXACT)
        for name, usd in ((GREEDY, 119.0345), (UNIFORM_PROGRESS, 101.6827))
    ]
    table_3 = [(GREEDY, 30.8, 17.2), (UNIFORM_PROGRESS, 25.1, 22.9)]
    if full:
        table_3.append((OPTIMUM, 20.7, 27.4))
        optima = {"A": 92.1617, "B": 93.9362} | ({"C": 65.6479} if shipped else {})
        found += [
            Gate(what=f"{name} optimum, USD", published=usd, found=results[name].optimum_usd, tolerance=EXACT)
            for name, usd in optima.items()
        ]
    for name, on_demand_h, spot_h in table_3:
        of_b = scored["B"][name]
        for what, published, here in (
            ("on-demand", on_demand_h, of_b.on_demand_work_h),
            ("spot", spot_h, of_b.spot_work_h),
        ):
            found.append(Gate(what=f"B {name}, {what} hours", published=published, found=here, tolerance=TABLE_3_H))
    return found


def print_gates(found: Sequence[Gate]) -> None:
    rows = [("gate", "published", "here", "")]
    rows += [(gate.what, f"{gate.published:g}", f"{gate.found:.4f}", "ok" if gate.holds else "FAILS") for gate in found]
    print_rows("Gates", rows)


def print_result(result: Result) -> None:
    rows = [("policy", "USD per on-time job", "95% of resamples", "late", "over optimum", "ms per look")]
    for name, scored in result.scores.items():
        interval = f"{scored.interval.low:.2f} to {scored.interval.high:.2f}"
        over, ms = f"{100 * result.over_optimum(name):.2f}%", f"{result.ran[name].ms_per_look:.3f}"
        rows.append((name, f"{scored.usd_per_on_time:.3f}", interval, str(scored.late), over, ms))
    cases, name = result.cases, result.cases.name
    print_rows(f"Set {name}: {cases.about}; {len(cases.cases)} cases", rows)
    saved = result.against_reserve
    print(f"  {PLACET} minus {RESERVE}, case by case: {saved.low:+.2f} to {saved.high:+.2f} USD")
    print(f"  to beat: {TO_BEAT[name]:.2f} USD; aim: {100 * AIMS[name]:.0f}% over the optimum (both for the whole set)")


def document(results: Mapping[str, Result], found: Sequence[Gate], given: argparse.Namespace) -> dict[str, object]:
    return {
        "bench": "yardstick",
        "sets": {name: set_document(result) for name, result in results.items()},
        "gates": {gate.what: {"published": gate.published, "here": gate.found, "ok": gate.holds} for gate in found},
        "tuned_on": TUNED_ON,
        "facts": {"short": given.short, "traces": given.traces.name, "seed": SEED, "resamples": RESAMPLES},
        "versions": versions() | {"numpy": np.__version__},
        "machine": machine(),
    }


def set_document(result: Result) -> dict[str, object]:
    ours, saved = result.scores[PLACET], result.against_reserve
    return {
        "policy": PLACET,
        "usd_per_on_time": round(ours.usd_per_on_time, 4),
        "late": ours.late,
        "optimum": round(result.optimum_usd, 4),
        "over_optimum": round(result.over_optimum(PLACET), 5),
        "interval": [round(ours.interval.low, 3), round(ours.interval.high, 3)],
        "minus_reserve_rule": [round(saved.low, 3), round(saved.high, 3)],
        "cases": len(result.cases.cases),
        "ms_per_look": round(result.ran[PLACET].ms_per_look, 4),
        "policies": {
            name: {"usd_per_on_time": _finite(scored.usd_per_on_time), "late": scored.late}
            for name, scored in result.scores.items()
        },
    }


def _finite(usd: float) -> float | None:
    """JSON has no infinity: nothing on time is null."""
    return round(usd, 4) if math.isfinite(usd) else None


if __name__ == "__main__":
    main()
