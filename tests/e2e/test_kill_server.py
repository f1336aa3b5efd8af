"""A server killed with SIGKILL again and again while a hundred workloads go through it: none lost, none run twice.

``KILL_SEED`` draws another schedule; a failure prints the seed that it came from.
"""

import random
from pathlib import Path

import pytest

from tests.support.mixture import Mixture, nothing_left, seed, settle
from tests.support.servers import Nursery, make_marks, servers

KILLS = 20
COUNT = 100


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # httpx leaves them where nobody answers
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_twenty_kills_lose_nothing_and_repeat_nothing(
    tmp_path: Path, database: str, nursery: Nursery, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(seed())
    url = {} if database == "sqlite" else {"PLACET_DATABASE_URL": request.getfixturevalue("postgres_url")}
    marks = make_marks(tmp_path)
    with servers(nursery, tmp_path, url) as [server]:
        mixture = Mixture(servers=[server], marks=marks, count=COUNT, chance=chance)
        for _ in range(KILLS):
            server.kill_sometime(chance)
        settle(mixture)
        nothing_left(tmp_path, server.data_dir / "local")
        server.close()
