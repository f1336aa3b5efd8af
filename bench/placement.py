"""One whole decision over catalogues of a thousand to a million offers: time and memory, beside peers and a floor.

A decision is everything the engine asks for: all filters with the count of what each dropped, the expected cost of a
successful workload with what attempts have taught, the best twenty with their reasons. Every decision has another time
and seed, so nothing but what follows from the snapshot is reused; what is made once per snapshot is shown as `first`.
Sizes are measured in a process each. Peers are asked on the same offers, and skipped visibly where not installed.
"""

import argparse
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from bench.catalogue import SEED, made, shipped
from bench.peers import gpuhunt_items, gpuhunt_query, numpy_floor, skypilot
from bench.placement_cases import CASES, Case, asked_of, experience_of
from bench.report import machine, percentile, print_rows, say, versions
from placet.domain.offer_table import OfferTable
from placet.stages.placement import place

SIZES = (1, 1_000, 10_000, 100_000, 1_000_000)
SHORT_SIZES = (1, 1_000, 10_000)
AIMS_MS = {100_000: 1.0, 1_000_000: 10.0}
AIM_LOAD_S, AIM_MIB = 0.3, 60.0
# Gates of the short form, in processor time, which a busy machine changes least; some ten times what a quiet one takes.
GATE_CPU_MS = {1: 0.8, 1_000: 5.0, 10_000: 12.0}
GATE_GROWTH = 5.0
FEW, MANY, HUGE = 40, 200, 1_000_000
PEER_ROUNDS = 3
LOADS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--short", action="store_true", help="small sizes only, with gates")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--peers-python", type=Path, metavar="FILE", help="a Python that has SkyPilot installed")
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure(given.one)))
        return
    sizes = SHORT_SIZES if given.short else SIZES
    found = [in_a_process_of_its_own(size) for size in sizes]
    for one in found:
        print_size(one)
    print_growth(found)
    peers = {} if given.short else ask_peers(given.peers_python)
    print_peers(peers, found)
    failed = gates(found) if given.short else []
    print(f"\nseed {SEED}; {machine()['cpu']}, load {machine()['load']}")
    for gate in failed:
        print(f"GATE FAILS: {gate}")
    if given.json:
        facts = {"seed": SEED, "short": given.short, "gates_failed": failed}
        document = {"bench": "placement", "sizes": found, "peers": peers, "facts": facts}
        document |= {"versions": versions() | {"numpy": np.__version__}, "machine": machine()}
        print(json.dumps(document, separators=(",", ":"), default=str))
    sys.exit(1 if failed else 0)


def in_a_process_of_its_own(size: int) -> dict[str, Any]:
    """So that memory is that of one size, and no size finds the caches of another."""
    say(f"{size:,} offers ...")
    command = [sys.executable, "-m", "bench.placement", "--one", str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure(size: int) -> dict[str, Any]:
    shipped()
    gc.collect()
    before = resident_mib()
    table = made(size)
    gc.collect()
    of_table = resident_mib() - before
    forget_peak()
    experience = experience_of(table)
    cases = {}
    for name, case in CASES.items():
        cases[name] = decide(case, table, None, size)
        cases[f"{name}, with evidence"] = decide(case, table, experience, size)
    gc.collect()
    in_use, peak = resident_mib() - before, peak_mib()
    load_s, load_cpu_s = loading(table) if size < HUGE else (None, None)
    return {
        "offers": size,
        "load_s": load_s,
        "load_cpu_s": load_cpu_s,
        "table_mib": round(of_table, 1),
        "in_use_mib": round(in_use, 1),
        "process_peak_mib": round(peak, 1),
        "tried_groups": len(experience.tallies),
        "cases": cases,
    }


def loading(table: OfferTable) -> tuple[float, float]:
    """Seconds, and seconds of processor time, from offers as values to a table. Last, for it leaves memory behind."""
    offers = [table.offer(row) for row in range(len(table))]
    gc.collect()
    took = []
    for _ in range(LOADS):
        wall_started, cpu_started = perf_counter(), thread_time()
        OfferTable.of(offers)
        took.append((perf_counter() - wall_started, thread_time() - cpu_started))
    wall, cpu = (percentile(list(some), 0.5) for some in zip(*took, strict=True))
    return round(wall, 4), round(cpu, 4)


def decide(case: Case, table: OfferTable, experience: Any, size: int) -> dict[str, Any]:
    """Times of one case; plans are checked to tell of every offer."""
    rounds = MANY if size < HUGE else FEW
    started = perf_counter()
    plan = place(asked_of(case, experience, 0), table, seed="first")
    first_ms = (perf_counter() - started) * 1000
    wall, cpu = [], []
    for number in range(1, rounds + 1):
        asked = asked_of(case, experience, number)
        wall_started, cpu_started = perf_counter(), thread_time()
        plan = place(asked, table, seed=f"workload {number}")
        cpu.append((thread_time() - cpu_started) * 1000)
        wall.append((perf_counter() - wall_started) * 1000)
    return {
        "p50_ms": round(percentile(wall, 0.5), 4),
        "p95_ms": round(percentile(wall, 0.95), 4),
        "cpu_p50_ms": round(percentile(cpu, 0.5), 4),
        "first_ms": round(first_ms, 3),
        "fit": len(table) - sum(count for _, count in plan.drop_counts),
        "ranked": len(plan.ranked),
    }


def print_size(found: Mapping[str, Any]) -> None:
    rows = [("case", "p50 ms", "p95 ms", "processor ms", "first ms", "fit", "ranked")]
    for name, case in found["cases"].items():
        times = (case["p50_ms"], case["p95_ms"], case["cpu_p50_ms"], case["first_ms"])
        rows.append((name, *(f"{value:.3f}" for value in times), f"{case['fit']:,}", str(case["ranked"])))
    cpu, memory = found["load_cpu_s"], f"the table takes {found['table_mib']:.0f} MiB"
    load = "" if cpu is None else f", made from offers in {found['load_s']:.2f} s ({cpu:.2f} s of processor time)"
    kept = (
        f"with what decisions keep {found['in_use_mib']:.0f}, the process {found['process_peak_mib']:.0f} at its peak"
    )
    print_rows(
        f"{found['offers']:,} offers: {memory}, {kept}{load}; evidence about {found['tried_groups']} groups",
        rows,
    )


def print_growth(found: Sequence[Mapping[str, Any]]) -> None:
    for key, what in (("p50_ms", "p50"), ("cpu_p50_ms", "p50 of the processor time")):
        rows = [("case", *(f"{one['offers']:,}" for one in found))]
        for name in found[0]["cases"]:
            rows.append((name, *(f"{one['cases'][name][key]:.3f}" for one in found)))
        print_rows(f"Growth: {what} in ms by the number of offers", rows)
    for one in found:
        aim, cases = AIMS_MS.get(one["offers"]), one["cases"].values()
        if aim is not None:
            within, cpu = (sum(case[key] < aim for case in cases) for key in ("p50_ms", "cpu_p50_ms"))
            print(f"  {one['offers']:,}: {within} of {len(cases)} cases under {aim:g} ms, {cpu} by processor time")
    print(f"  aims: 100,000 loaded in {AIM_LOAD_S} s, {AIM_MIB:.0f} MiB")


def ask_peers(python: Path | None) -> dict[str, Any]:
    """The cases that all of them can express, over 100,000 offers."""
    say("peers ...")
    table = made(100_000)
    asked = {name: case for name, case in CASES.items() if case.peers}
    peers: dict[str, Any] = {"NumPy masks, first 20 by price": numpy_floor(table, asked, MANY)}
    try:
        items = gpuhunt_items(table)
        answers = {name: gpuhunt_query(items, case, PEER_ROUNDS) for name, case in asked.items()}
        peers[f"gpuhunt {metadata.version('gpuhunt')}"] = answers
    except (ImportError, metadata.PackageNotFoundError) as error:
        peers["gpuhunt"] = f"skipped: {error}"
    peers["SkyPilot"] = skypilot(python, table, asked, PEER_ROUNDS)
    return peers


def print_peers(peers: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    ours = next((one for one in found if one["offers"] == 100_000), None)
    if not peers or ours is None:
        return
    names = [name for name, case in CASES.items() if case.peers]
    rows = [("over 100,000 offers", *(f"{name}, ms" for name in names), "fit")]
    for suffix in ("", ", with evidence"):
        cells = [f"{ours['cases'][name + suffix]['p50_ms']:.3f}" for name in names]
        fits = " ".join(f"{ours['cases'][name]['fit']:,}" for name in names)
        rows.append((f"Placet, whole decision{suffix}", *cells, fits))
    for peer, answer in peers.items():
        if isinstance(answer, str):
            rows.append((peer, answer, *[""] * len(names)))
            continue
        cells = [f"{answer[name]['ms']:.3f}" for name in names]
        rows.append((peer, *cells, " ".join(f"{answer[name]['fit']:,}" for name in names if "fit" in answer[name])))
    print_rows("Beside others, on the same offers", rows)


def gates(found: Sequence[Mapping[str, Any]]) -> list[str]:
    failed = []
    for one in found:
        worst = max(case["cpu_p50_ms"] for case in one["cases"].values())
        if worst > GATE_CPU_MS[one["offers"]]:
            failed.append(
                f"{one['offers']} offers take {worst} ms of processor time, gate {GATE_CPU_MS[one['offers']]}"
            )
    small, large = found[-2]["cases"], found[-1]["cases"]
    for name, case in large.items():
        growth = case["cpu_p50_ms"] / small[name]["cpu_p50_ms"]
        times = found[-1]["offers"] / found[-2]["offers"]
        if growth > times * GATE_GROWTH:
            failed.append(f"{name}: {times:g} times the offers take {growth:.1f} times the time")
    return failed


def seconds(run: Callable[[], object]) -> float:
    started = perf_counter()
    run()
    return perf_counter() - started


def resident_mib() -> float:
    return _status("VmRSS")


def peak_mib() -> float:
    return _status("VmHWM")


def forget_peak() -> None:
    """From here on the peak is that of what follows."""
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
