"""The drill: a copy while work goes on, everything lost, a restore that first only looks, then acts."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from placet.adapters.store import migrate
from placet.adapters.store.backup import CannotCopy, backup, check, restore
from placet.app import end_observing, observes, restore_database
from placet.cli.main import run
from tests.support.served import served, settings_in
from tests.support.waiting import wait_until


def test_the_drill(tmp_path: Path) -> None:
    """What ran after the copy is listed and left alone; what was recorded is acted on when somebody says so."""
    data, copy, mark = tmp_path / "data", tmp_path / "copy.db", tmp_path / "mark"
    with served(data) as server:
        over = server.submit("/bin/true")
        server.wait(over)
        kept = server.submit("/bin/sh", "-c", f"touch {mark}.kept; exec sleep 600")
        wait_until(Path(f"{mark}.kept").exists, 30, "the one that is recorded runs")
        there = f"/v1/workloads/{kept}"
        wait_until(lambda: server.http.get(there).json()["state"] == "running", 30, "and that is written")
        backup(f"sqlite:///{data}/placet.db", copy)
        lost = server.submit("/bin/sh", "-c", f"touch {mark}.lost; exec sleep 600")
        wait_until(Path(f"{mark}.lost").exists, 30, "the one that is not recorded runs")
    for name in ("placet.db", "placet.db-wal", "placet.db-shm"):
        (data / name).unlink(missing_ok=True)
    assert restore_database(settings_in(data), copy) == check(copy)
    with served(data) as server:
        assert server.http.get(f"/v1/workloads/{over}").json()["state"] == "succeeded"
        assert server.http.get(f"/v1/workloads/{kept}").json()["state"] == "running"
        assert server.http.get(f"/v1/workloads/{lost}").status_code == 404
        refused = server.http.post("/v1/workloads", json={"runtime": {"type": "process", "command": ["true"]}})
        assert (refused.status_code, refused.json()["code"]) == (503, "observing")
        assert server.http.post(f"/v1/workloads/{kept}/cancel").status_code == 200  # a wish, kept for later
        wait_until(lambda: server.http.get("/v1/orphans").json()["items"], 30, "what nobody recorded is listed")
        (orphan,) = server.http.get("/v1/orphans").json()["items"]
        assert lost.removeprefix("wl_") in orphan["key"]
        assert server.http.get(f"/v1/workloads/{kept}").json()["state"] == "running"  # nothing was done about it
        assert server.http.post(f"/v1/orphans/{orphan['id']}/delete").status_code == 202
        wait_until(lambda: not server.http.get("/v1/orphans").json()["items"], 30, "what somebody asked for is done")
    settings = settings_in(data)
    assert observes(settings)
    end_observing(settings)
    assert not observes(settings)
    with served(data) as server:
        assert server.wait(kept)["state"] == "cancelled"
        server.wait(server.submit("/bin/true"))


def test_a_copy_never_overwrites_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    database, copy = tmp_path / "placet.db", tmp_path / "copy.db"
    with pytest.raises(CannotCopy, match="no database"):
        backup(f"sqlite:///{database}", copy)
    assert list(tmp_path.iterdir()) == []
    migrate(f"sqlite:///{database}")
    backup(f"sqlite:///{database}", copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CannotCopy, match="never overwritten"):
        backup(f"sqlite:///{database}", copy)
    with pytest.raises(CannotCopy, match="exists"):
        restore(f"sqlite:///{database}", copy)
    other = f"sqlite:///{tmp_path}/other/placet.db"
    for damage in (b"", b"nothing", copy.read_bytes()[: copy.stat().st_size // 2]):
        (tmp_path / "bad").write_bytes(damage)
        with pytest.raises(CannotCopy):
            restore(other, tmp_path / "bad")
    shutil.copy(copy, tmp_path / "newer")
    with closing(sqlite3.connect(tmp_path / "newer")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num='9999'")
    with pytest.raises(CannotCopy, match="newer"):
        restore(other, tmp_path / "newer")
    os.mkfifo(tmp_path / "pipe")
    for strange in (tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        with pytest.raises(CannotCopy, match="no file"):
            restore_database(settings_in(tmp_path / "other"), strange)
    with pytest.raises(CannotCopy, match=r"nowhere/copy.db cannot be written: No such file"):
        backup(f"sqlite:///{database}", tmp_path / "nowhere" / "copy.db")
    assert not (tmp_path / "other").exists()
    restore(other, copy)
    migrate(other)


@pytest.mark.postgres
def test_a_postgresql_database_is_dumped_by_its_own_tool(postgres_url: str, tmp_path: Path) -> None:
    url = postgres_url
    migrate(url)
    backup(url, tmp_path / "dump")
    assert (tmp_path / "dump").read_bytes()[:5] == b"PGDMP"
    with pytest.raises(CannotCopy, match="pg_restore"):
        restore(url, tmp_path / "dump")


def test_the_commands_say_what_comes_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.db"
    with served(data):
        assert run(["--data-dir", str(data), "backup", str(copy), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["size_bytes"] == copy.stat().st_size
        assert run(["--data-dir", str(tmp_path / "other"), "restore", str(copy)]) == 0
        said = capsys.readouterr()
        assert "--act" in said.err
        assert run(["--data-dir", str(data), "restore", str(copy)]) != 0


def test_the_drill_script_tries_a_folder_in_use(tmp_path: Path, project_root: Path) -> None:
    data = tmp_path / "data"
    with served(data) as server:
        for _ in range(3):
            server.wait(server.submit("/bin/true"))
        command = [project_root / "scripts" / "restore-drill", data]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        assert "restored: 3 of the latest workloads, 0 came after" in done.stdout
