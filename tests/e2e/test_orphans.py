"""What runs and is recorded nowhere: shown with what it burns, left alone, deleted when somebody asks, with proof."""

import shutil
from decimal import Decimal
from pathlib import Path

from tests.support.served import Served, served
from tests.support.waiting import wait_until

PRICE = {"price_per_hour": "2.50"}


def listed(server: Served, query: str = "") -> dict[str, object]:
    reply = server.http.get(f"/v1/orphans{query}")
    assert reply.status_code == 200, reply.text
    page: dict[str, object] = reply.json()
    return page


def test_a_restored_database_shows_what_it_never_heard_of(tmp_path: Path) -> None:
    data, mark = tmp_path / "data", tmp_path / "pid"
    with served(data):
        pass
    shutil.copy(data / "placet.db", tmp_path / "backup.db")
    with served(data, local=PRICE) as server:
        lost = server.submit("/bin/sh", "-c", f"echo $$ > {mark}.new; mv {mark}.new {mark}; exec sleep 600")
        wait_until(mark.exists, 20, "the program runs")
    program = Path("/proc") / mark.read_text().strip()
    for name in ("placet.db-wal", "placet.db-shm"):
        (data / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", data / "placet.db")
    with served(data, local=PRICE) as server:
        assert server.http.get(f"/v1/workloads/{lost}").status_code == 404
        wait_until(lambda: bool(listed(server)["items"]), 30, "the sweep lists it")
        page = listed(server)
        (orphan,) = page["items"]  # type: ignore[misc]  # a list, by the contract
        assert (orphan["reason"], orphan["state"], orphan["proof"]) == ("no_record", "listed", "")
        assert lost.removeprefix("wl_") in orphan["key"]
        # what a program of this machine costs is known where nothing is recorded of it, too
        assert page["unpriced"] == 0
        assert orphan["price_usd_per_hour"] == page["burn_usd_per_hour"]
        assert Decimal(str(page["burn_usd_per_hour"])) == Decimal(PRICE["price_per_hour"])
        assert program.exists()
        path = f"/v1/orphans/{orphan['id']}/delete"
        assert server.http.post(path).status_code == 202
        wait_until(lambda: not listed(server)["items"], 30, "it is deleted")
        assert not program.exists()
        (closed,) = listed(server, "?closed=true")["items"]  # type: ignore[misc]  # a list, by the contract
        assert (closed["state"], closed["requested_by"].startswith("token:")) == ("closed", True)
        assert closed["proof"]
        assert server.http.post(path).status_code == 200
        assert server.http.post("/v1/orphans/or_0/delete").status_code == 404
        assert listed(server, "?closed=true")["items"] == [closed]
