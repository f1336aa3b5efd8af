"""Who pays least for a workload that succeeds, in a simulated market of many providers: `python -m bench.market`.

Two markets: spot at one price in all zones of a provider, as it was while the traces were recorded, and at prices that
differ up to six times, as in public lists. What is measured and what is ours is told in `bench/rentals/world.py`. All
policies meet the same workloads, the same free and sold-out hours and the same chances. Placet is the placement stage
that the engine asks, with learning from its own attempts alone; it begins every seed knowing nothing.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from bench.rentals.policies import CLAIRVOYANT, FAILOVER, ORACLE, PLACET, POLICIES
from bench.rentals.simulation import Outcome, simulate
from bench.rentals.world import DIFFERENT_PRICES, SAME_PRICES, world
from bench.report import machine, print_rows, say, versions

MARKETS = {"one price in all zones": SAME_PRICES, "prices differ by zone": DIFFERENT_PRICES}
# While policies, beliefs and this market were worked on, these seeds were looked at, with other recorded windows.
TUNED_ON = range(1000, 1010)
SEEDS = range(1, 21)
SHORT_SEEDS = range(1, 4)
WORKLOADS, SHORT_WORKLOADS = 250, 120
RESAMPLES, RESAMPLE_SEED = 2000, 20261201
AIM_UNDER_FAILOVER, AIM_OVER_ORACLE = 0.25, 0.10
# Who leaves dear workloads unfinished looks cheap per success.
FINISHING = 0.01
# The short form fails beyond these: a guard against getting worse, far from what the long form finds.
GATE_OF_FAILOVER, GATE_OF_ORACLE, GATE_LATE = 1.05, 1.15, 0.02

Ran = Mapping[str, Sequence[tuple[Outcome, ...]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--short", action="store_true", help="three seeds, with gates")
    parser.add_argument(
        "--tuning", action="store_true", help="the seeds that were looked at before, not those to report"
    )
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="write plots there (needs matplotlib)")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many work at once")
    given = parser.parse_args()
    seeds = TUNED_ON if given.tuning else SHORT_SEEDS if given.short else SEEDS
    count = SHORT_WORKLOADS if given.short else WORKLOADS
    results = {name: run(name, ratio, seeds, count, given) for name, ratio in MARKETS.items()}
    tables = {name: {policy: summary(ran, policy) for policy in POLICIES} for name, ran in results.items()}
    for name, table in tables.items():
        print_market(f"{name}: {len(seeds)} seeds of {count} workloads", table)
    print(f"\nseeds {seeds[0]} to {seeds[-1]}; looked at before: {TUNED_ON[0]} to {TUNED_ON[-1]}")
    print(f"intervals: 95 of 100 bootstrap resamples of the seeds, {RESAMPLES} of them, seed {RESAMPLE_SEED}")
    failed = gates(tables) if given.short else []
    for gate in failed:
        print(f"GATE FAILS: {gate}")
    if given.plot is not None:
        from bench.rentals.plots import draw  # only here: matplotlib is optional

        draw(given.plot, results, tables)
    if given.json:
        facts = {
            "short": given.short,
            "seeds": list(seeds),
            "tuned_on": list(TUNED_ON),
            "workloads": count,
            "gates_failed": failed,
        }
        document = {"bench": "market", "markets": tables, "facts": facts}
        document |= {"versions": versions() | {"numpy": np.__version__}, "machine": machine()}
        print(json.dumps(document, separators=(",", ":"), default=str))
    sys.exit(1 if failed else 0)


def run(name: str, price_ratio: float, seeds: Sequence[int], count: int, given: argparse.Namespace) -> Ran:
    say(f"{name}: {len(seeds)} seeds ...")
    with ProcessPoolExecutor(given.processes) as pool:
        by_seed = list(pool.map(partial(_seed, price_ratio, count, given.tuning), seeds))
    return {policy: [outcomes[policy] for outcomes in by_seed] for policy in POLICIES}


def _seed(price_ratio: float, count: int, tuning: bool, seed: int) -> dict[str, tuple[Outcome, ...]]:
    made = world(seed, count, price_ratio, tuning=tuning)
    return {name: simulate(made, policy(made)) for name, policy in POLICIES.items()}


def summary(ran: Ran, policy: str) -> dict[str, object]:
    """Figures of one policy; ``of_failover`` and ``of_oracle`` are ratios of costs, seeds drawn together."""
    usd, done = _sums(ran, policy)
    found: dict[str, object] = {
        "usd_per_success": _interval(usd, done),
        "unfinished": round(1 - float(done.sum() / _count(ran)), 5),
        "late": _share([[outcome.late for outcome in outcomes] for outcomes in ran[policy]]),
        "hours_to_success": _interval(
            np.array([sum(one.took_s for one in outcomes if one.finished) / 3600 for outcomes in ran[policy]]), done
        ),
        "attempts": round(float(np.mean([one.attempts for outcomes in ran[policy] for one in outcomes])), 3),
        "refusals": round(float(np.mean([one.refusals for outcomes in ran[policy] for one in outcomes])), 3),
    }
    for other, name in ((FAILOVER, "of_failover"), (ORACLE, "of_oracle"), (CLAIRVOYANT, "of_clairvoyant")):
        their_usd, their_done = _sums(ran, other)
        found[name] = _ratio(usd, done, their_usd, their_done)
    return found


def _sums(ran: Ran, policy: str) -> tuple[np.ndarray, np.ndarray]:
    usd = np.array([sum(outcome.usd for outcome in outcomes) for outcomes in ran[policy]])
    done = np.array([float(sum(outcome.finished for outcome in outcomes)) for outcomes in ran[policy]])
    return usd, done


def _count(ran: Ran) -> int:
    return sum(len(outcomes) for outcomes in next(iter(ran.values())))


def _draws(count: int) -> np.ndarray:
    return np.random.default_rng(RESAMPLE_SEED).integers(count, size=(RESAMPLES, count))


def _interval(top: np.ndarray, bottom: np.ndarray) -> list[float]:
    """The value and its interval."""
    drawn = _draws(len(top))
    values = top[drawn].sum(axis=1) / bottom[drawn].sum(axis=1)
    return _rounded(float(top.sum() / bottom.sum()), values)


def _ratio(usd: np.ndarray, done: np.ndarray, their_usd: np.ndarray, their_done: np.ndarray) -> list[float]:
    drawn = _draws(len(usd))
    ours = usd[drawn].sum(axis=1) / done[drawn].sum(axis=1)
    theirs = their_usd[drawn].sum(axis=1) / their_done[drawn].sum(axis=1)
    return _rounded(float(usd.sum() / done.sum() / (their_usd.sum() / their_done.sum())), ours / theirs)


def _share(marks: Sequence[Sequence[bool]]) -> list[float]:
    each = np.array([float(np.mean(one)) for one in marks])
    return _rounded(float(each.mean()), each[_draws(len(each))].mean(axis=1))


def _rounded(value: float, drawn: np.ndarray) -> list[float]:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return [round(value, 5), round(float(low), 5), round(float(high), 5)]


def print_market(title: str, table: Mapping[str, Mapping[str, object]]) -> None:
    rows = [
        (
            "policy",
            "USD per success",
            "of failover's",
            "of the oracle's",
            "late",
            "unfinished",
            "hours",
            "attempts",
            "refused",
        )
    ]
    for policy, found in table.items():
        rows.append(
            (
                policy,
                _told(found["usd_per_success"], "{:.2f}"),
                _told(found["of_failover"], "{:.3f}"),
                _told(found["of_oracle"], "{:.3f}"),
                _told(found["late"], "{:.1%}"),
                f"{found['unfinished']:.1%}",
                _told(found["hours_to_success"], "{:.2f}"),
                f"{found['attempts']:.2f}",
                f"{found['refusals']:.2f}",
            )
        )
    print_rows(title, rows)
    ours = table[PLACET]
    for what, key, aim in (
        ("of price-ordered failover's cost", "of_failover", 1 - AIM_UNDER_FAILOVER),
        ("of the oracle's", "of_oracle", 1 + AIM_OVER_ORACLE),
    ):
        value = ours[key]
        assert isinstance(value, list)
        print(f"  aim: {PLACET} at most {aim:.2f} {what}: {value[0]:.3f}, {'met' if value[0] <= aim else 'NOT met'}")
    reliable = [found["of_failover"] for found in table.values() if float(str(found["unfinished"])) < FINISHING]
    best = min(ratio[0] for ratio in reliable if isinstance(ratio, list))
    print(f"  the best of all that finish {1 - FINISHING:.0%}, oracles included: {best:.3f} of failover's")


def _told(value: object, form: str) -> str:
    assert isinstance(value, list)
    return f"{form.format(value[0])} ({form.format(value[1])} to {form.format(value[2])})"


def gates(tables: Mapping[str, Mapping[str, Mapping[str, object]]]) -> list[str]:
    failed = []
    for market, table in tables.items():
        ours = table[PLACET]
        for key, bar in (("of_failover", GATE_OF_FAILOVER), ("of_oracle", GATE_OF_ORACLE), ("late", GATE_LATE)):
            value = ours[key]
            assert isinstance(value, list)
            if value[0] > bar:
                failed.append(f"{market}: {key} is {value[0]}, gate {bar}")
    return failed


if __name__ == "__main__":
    main()
