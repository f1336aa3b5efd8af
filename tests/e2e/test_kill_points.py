"""Servers and supervisors die at named commits and effects: afterwards nothing is lost, doubled or different.

The whole sweep is ``python -m bench.kills``; here are the moments at which most could go wrong, and some drawn by
``KILL_SEED``, which a failure prints.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from placet.domain.states import IntentVerb
from placet.failpoints import POINTS, Point, intent_point
from placet.runner import failpoints as runner
from tests.support.kills import AFTERWARDS, ELSEWHERE, Cut, Sweep, cuts
from tests.support.mixture import seed
from tests.support.postgres import PostgresServer
from tests.support.servers import Nursery

AT_A_TIME = 6
MOMENTS = (
    f"{Point.ACCEPT}.after",
    f"{Point.REPLY}.before",
    f"{intent_point(IntentVerb.SUBMIT)}.before",
    f"{Point.SUBMIT}.after",
    f"{Point.PERMIT}.after",
    f"{Point.CANCEL}.before",
    f"{Point.ADOPT}.after",
    f"{Point.VERDICT}.before",
    f"{Point.VERDICT}.after",
    f"{Point.RELEASE}.after",
)
OF_THE_RUNNER = (
    "runner.request.before",  # while it is greeted
    "runner.record.launch.json.after",
    "runner.start.after",
    "runner.record.exit.json.before",
)
DRAWN = {"sqlite": 2, "postgresql": 1}


def chosen(store: str) -> list[Cut]:
    every = {cut.moment: cut for cut in cuts()}
    fixed = [*MOMENTS[::2], *OF_THE_RUNNER[1:3]] if store == "sqlite" else [*MOMENTS[1::4]]
    others = sorted(every.keys() - set(fixed))
    return [every[moment] for moment in (*fixed, *random.Random(seed()).sample(others, DRAWN[store]))]


def check(nursery: Nursery, folder: Path, store: str, settings: list[dict[str, str]]) -> None:
    moments = chosen(store)

    def kill(number: int) -> str:
        sweep = Sweep(nursery=nursery, folder=folder / f"{number:03}", store=store, settings=settings[number])
        verdict = sweep.kill(moments[number])
        return "" if verdict.reached and not verdict.fault else f"{verdict.cut.name}: {verdict.word} {verdict.fault}"

    with ThreadPoolExecutor(AT_A_TIME) as threads:
        wrong = [told for told in threads.map(kill, range(len(moments))) if told]
    assert not wrong, "\n\n".join(wrong)


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # httpx leaves them where nobody answers
]


def test_killed_at_a_point_with_sqlite(tmp_path: Path, nursery: Nursery) -> None:
    check(nursery, tmp_path, "sqlite", [{}] * len(chosen("sqlite")))


@pytest.mark.postgres
def test_killed_at_a_point_with_postgresql(tmp_path: Path, nursery: Nursery, postgres_server: PostgresServer) -> None:
    names = [postgres_server.create_database() for _ in chosen("postgresql")]
    check(nursery, tmp_path, "postgresql", [{"PLACET_DATABASE_URL": postgres_server.url(name)} for name in names])
    for name in names:
        postgres_server.drop_database(name)


def test_every_point_is_in_the_sweep_or_it_is_said_why_not() -> None:
    known = {str(point) for point in (*POINTS, *runner.POINTS)}
    assert {cut.point for cut in cuts()} | set(map(str, ELSEWHERE)) == known
    assert not {str(point) for point in ELSEWHERE} & {cut.point for cut in cuts()}
    assert {str(point) for point in AFTERWARDS} <= known
    assert {*MOMENTS, *OF_THE_RUNNER} <= {cut.moment for cut in cuts()}
