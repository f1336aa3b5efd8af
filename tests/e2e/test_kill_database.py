"""PostgreSQL goes away in the middle of the work and comes back: the server recovers by itself and nothing is lost."""

import random
from pathlib import Path

import pytest

from tests.support.mixture import Mixture, nothing_left, seed, settle
from tests.support.postgres import Restartable
from tests.support.servers import Nursery, make_marks, pass_time, servers

RESTARTS = 3
COUNT = 60
AWAY_MOST_S = 1.5
THERE_MOST_S = 1.5


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [1, 2], ids=["one server", "two servers"])
def test_a_database_that_comes_and_goes_loses_nothing(
    tmp_path: Path, nursery: Nursery, restartable: Restartable, count: int
) -> None:
    chance = random.Random(seed())
    settings = {
        "PLACET_DATABASE_URL": restartable.server.url(restartable.server.create_database()),
        "PLACET_LOCAL__FOLDER": str(tmp_path / "local"),
        "PLACET_ARTIFACTS_DIR": str(tmp_path / "artifacts"),
    }
    marks = make_marks(tmp_path)
    with servers(nursery, tmp_path, *[settings] * count) as all_of_them:
        mixture = Mixture(servers=all_of_them, marks=marks, count=COUNT, chance=chance)
        for _ in range(RESTARTS):
            pass_time(chance.uniform(0, THERE_MOST_S))
            restartable.stop()
            pass_time(chance.uniform(0, AWAY_MOST_S))
            restartable.start()
        settle(mixture)
        nothing_left(tmp_path, tmp_path / "local")
        for server in all_of_them:
            assert "Traceback" not in server.log
            server.close()
