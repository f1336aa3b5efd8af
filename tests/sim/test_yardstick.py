"""The simulator of spot traces gives the published figures, so what is compared on it can be trusted; a short form."""

import itertools
import json
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bench import yardstick
from bench.traces import baselines
from bench.traces.optimum import Optimum
from bench.traces.placet import Placet
from bench.traces.sets import NINE_ZONES, CaseSet, nine_zone_windows, set_a, set_b, set_c
from bench.traces.simulator import HOUR_S, NOTHING, Case, Choice, Kind, Outcome, Rule, RuleBroken, Seen, simulate
from bench.traces.tuning import disjoint_stretches

TABLE_3_TOLERANCE_H = 0.5
SETS = (set_a, set_b, set_c)


def outcomes(cases: CaseSet, rule: Rule) -> list[Outcome]:
    return [simulate(case, rule) for case in cases.cases]


def usd_per_on_time(found: list[Outcome]) -> float:
    return sum(outcome.usd for outcome in found) / sum(outcome.on_time for outcome in found)


@pytest.mark.parametrize(("rule", "usd"), [(baselines.Greedy, 119.0345), (baselines.UniformProgress, 101.6827)])
def test_the_leaderboard_is_reproduced_to_the_last_digit(rule: Rule, usd: float) -> None:
    found = outcomes(set_a(), rule)
    assert len(found) == 1080
    assert all(outcome.on_time for outcome in found)
    assert round(usd_per_on_time(found), 4) == usd


@pytest.mark.parametrize(
    ("rule", "on_demand_h", "spot_h"), [(baselines.Greedy, 30.8, 17.2), (baselines.UniformProgress, 25.1, 22.9)]
)
def test_table_3_of_the_paper_is_reproduced(rule: Rule, on_demand_h: float, spot_h: float) -> None:
    found = outcomes(set_b(), rule)
    assert len(found) == 1128
    here_h = [
        statistics.mean(seconds) / HOUR_S
        for seconds in zip(*((one.on_demand_work_s, one.spot_work_s) for one in found), strict=True)
    ]
    assert here_h == pytest.approx([on_demand_h, spot_h], abs=TABLE_3_TOLERANCE_H)


@pytest.mark.parametrize("cases", SETS)
def test_the_optimum_can_be_had_and_nothing_is_cheaper(cases: object) -> None:
    assert callable(cases)
    for case in cases().cases[7::150]:
        best = Optimum(case)
        replayed = simulate(case, lambda _, best=best: best)
        assert replayed.on_time
        assert replayed.usd == pytest.approx(best.usd)
        for rule in (baselines.Greedy, baselines.UniformProgress, Placet):
            assert simulate(case, rule).usd >= best.usd - 1e-9


@dataclass
class Script:
    """Chooses as written; what is not there is left out."""

    choices: tuple[Choice, ...]

    def decide(self, seen: Seen) -> Choice:
        choice = self.choices[seen.tick]
        return NOTHING if choice.kind is Kind.SPOT and not seen.up[choice.place] else choice


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_the_best_of_all_sequences(seed: int) -> None:
    drawn = random.Random(seed)
    places, ticks = 2, 6
    case = Case(
        group="made up",
        start=str(seed),
        places=("a", "b"),
        up=tuple(bytes(drawn.choices((0, 1), k=ticks)) for _ in range(places)),
        gap_s=600,
        work_s=1800,
        deadline_s=3600,
        delay_s=drawn.choice((300, 900)),
    )
    kinds = (NOTHING, Choice(Kind.ON_DEMAND), Choice(Kind.SPOT, 0), Choice(Kind.SPOT, 1))
    tried = (simulate(case, lambda _, c=c: Script(c)) for c in itertools.product(kinds, repeat=ticks))
    assert min(one.usd for one in tried if one.on_time) == pytest.approx(Optimum(case).usd)


def test_a_policy_that_takes_what_is_not_there_is_caught() -> None:
    case = replace(set_a().cases[0], up=(bytes(312),))

    class Cheat:
        def decide(self, seen: Seen) -> Choice:
            del seen
            return Choice(Kind.SPOT, 0)

    with pytest.raises(RuleBroken):
        simulate(case, lambda _: Cheat())


@pytest.mark.parametrize("cases", SETS)
def test_the_engines_policy_is_never_late_and_beats_uniform_progress(cases: object) -> None:
    assert callable(cases)
    whole = cases()
    part = replace(whole, cases=whole.cases[:: 20 if len(whole.cases) > 100 else 3])
    ours, theirs = outcomes(part, Placet), outcomes(part, baselines.UniformProgress)
    assert all(outcome.on_time for outcome in ours)
    assert statistics.mean(one.usd for one in ours) < statistics.mean(one.usd for one in theirs)


def test_tuning_sees_no_minute_of_set_c() -> None:
    windows = nine_zone_windows()
    stretches = list(disjoint_stretches(windows))
    assert len(stretches) == 5
    held = {trace.tobytes() for traces in stretches for trace in traces.values()}
    for window in windows[:8]:
        # An hour of a zone that changed in it would be found again if it were there.
        for up in window.zones.values():
            for middle in changing_hours(up):
                assert not any(middle in trace for trace in held)


def changing_hours(up: bytes) -> Iterator[bytes]:
    """Long pieces with so many changes that they do not occur twice by chance."""
    for first in range(0, len(up) - 400, 400):
        piece = up[first : first + 400]
        if sum(a != b for a, b in itertools.pairwise(piece)) >= 12:
            yield piece


def test_another_file_of_nine_zones_is_taken_and_the_report_is_one_object(tmp_path: Path) -> None:
    data = json.loads(NINE_ZONES.read_text())
    data["windows"] = data["windows"][20:22]
    other = tmp_path / "other.json"
    other.write_text(json.dumps(data))
    cases = set_c(other)
    assert len(cases.cases) == 12
    assert {case.start for case in cases.cases} == {f"window {window['id']}" for window in data["windows"]}
    result = yardstick.measure(replace(cases, cases=cases.cases[:2]), processes=1)
    told = json.loads(json.dumps(yardstick.set_document(result), allow_nan=False))
    assert told["policy"] == "placet"
    assert told["late"] == 0
    assert told["optimum"] <= told["usd_per_on_time"]
