"""The server's wall clock jumps by ten minutes, back and forth, while it works: nothing is lost, doubled or late."""

import random
from pathlib import Path

import pytest

from tests.support.mixture import Mixture, nothing_left, seed, settle
from tests.support.servers import Nursery, make_marks, pass_time, servers

JUMPS_S = (600, -600, 0, -600, 600, 0)
COUNT = 20
BETWEEN_MOST_S = 1.0


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, nursery: Nursery) -> None:
    chance = random.Random(seed())
    clock = tmp_path / "clock"
    clock.write_text("0")
    marks = make_marks(tmp_path)
    with servers(nursery, tmp_path, {}, start=False) as [server]:
        server.clock = clock
        server.start()
        mixture = Mixture(servers=[server], marks=marks, count=COUNT, chance=chance)
        for offset_s in JUMPS_S:
            pass_time(chance.uniform(0, BETWEEN_MOST_S))
            moved = clock.with_suffix(".new")
            moved.write_text(str(offset_s))
            moved.replace(clock)
        settle(mixture)
        nothing_left(tmp_path, server.data_dir / "local")
        assert "Traceback" not in server.log
        server.close()
