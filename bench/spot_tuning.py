"""What each constant of the spot policy does, on the only data it may come from: `python -m bench.spot_tuning`.

Every row changes one constant of `placet.stages.spot_history.Learning`; the figures are percent over the optimum.
"""

import argparse
import json
import os
from dataclasses import replace
from functools import partial

from bench.report import print_rows, say
from bench.traces.baselines import Reserve, UniformProgress
from bench.traces.optimum import Optimum
from bench.traces.placet import Placet
from bench.traces.running import run
from bench.traces.scoring import score
from bench.traces.simulator import Rule
from bench.traces.tuning import tuning_sets
from placet.stages.spot_history import LEARNING, Learning

VARIANTS: tuple[tuple[str, Learning], ...] = (
    ("as it is", LEARNING),
    *((f"caution {value:g}", replace(LEARNING, caution=value)) for value in (1.0, 1.2, 1.6, 2.0)),
    *((f"prior of {value:g} events", replace(LEARNING, prior_events=value)) for value in (2.5, 10.0)),
    *((f"memory of {value:g} h", replace(LEARNING, memory_h=value)) for value in (12.0, 1000.0)),
    *((f"first age of {value:g} h", replace(LEARNING, first_age_h=value)) for value in (0.0, 4.0)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="how many work at once")
    parser.add_argument("--short", action="store_true", help="every third case")
    given = parser.parse_args()
    rules: dict[str, Rule] = {"optimum": Optimum, "uniform progress": UniformProgress}
    rules |= {f"reserve rule, {share:g}": partial(Reserve, share=share) for share in (0.10, 0.15)}
    rules |= {name: partial(Placet, learning=learning) for name, learning in VARIANTS}
    columns: dict[str, dict[str, float]] = {}
    for whole in tuning_sets():
        cases = replace(whole, cases=whole.cases[::3]) if given.short else whole
        ran = run(cases, rules, given.processes, say)
        usd = {name: score(cases, found.outcomes).usd_per_on_time for name, found in ran.items()}
        columns[cases.name] = {name: 100 * (value / usd["optimum"] - 1) for name, value in usd.items()}
    rows = [("percent over the optimum", *columns)]
    rows += [(name, *(f"{column[name]:.2f}" for column in columns.values())) for name in rules if name != "optimum"]
    print_rows("What the constants of the spot policy were chosen on", rows)
    if given.json:
        print(json.dumps({"bench": "spot_tuning", "percent_over_optimum": columns}, separators=(",", ":")))


if __name__ == "__main__":
    main()
