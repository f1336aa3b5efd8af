"""Commands run and files lie the same way on this machine and on another, whatever their names hold."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.adapters.providers.slurm.site import HereSite, Overdue, Site, Unreachable, run_here
from placet.adapters.providers.slurm.ssh import SshSite
from tests.support.local import state_of
from tests.support.sshd import Door

ODD = "an odd 'name' with $(touch gone) `touch gone` ; & | \"quotes\" * -x"
OPEN = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "ODD": ODD}


@pytest.fixture(params=["here", "ssh"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    made: Site
    if request.param == "here":
        made = HereSite(OPEN)
    else:
        door: Door = request.getfixturevalue("ssh_door")
        made = SshSite("cluster", OPEN, dict(os.environ), program=door.program)
    yield made
    await made.close()


async def test_a_word_stays_a_word(site: Site, tmp_path: Path) -> None:
    answer = await site.run(["printf", "%s|", ODD, "", "two\nlines"], limit_s=20.0)
    assert answer.good
    assert answer.out == f"{ODD}||two\nlines|"
    assert (await site.run(["sh", "-c", 'printf %s "$ODD"'], limit_s=20.0)).out == ODD
    assert os.listdir(tmp_path) == []


async def test_codes_and_streams_are_told_apart(site: Site) -> None:
    answer = await site.run(["sh", "-c", "cat; echo bad >&2; exit 7"], limit_s=20.0, stdin=b"in\n")
    assert (answer.code, answer.out, answer.err.strip()) == (7, "in\n", "bad")
    assert (await site.run(["no-such-program"], limit_s=20.0)).code == 127


async def test_nothing_of_this_process_is_told_to_a_command(site: Site) -> None:
    names = {line.partition("=")[0] for line in (await site.run(["env"], limit_s=20.0)).out.splitlines()}
    assert names <= {"PATH", "LC_ALL", "ODD", "HOME", "USER", "LOGNAME", "_", "PWD", "SHLVL"}, names


async def test_what_does_not_answer_is_overdue(site: Site) -> None:
    with pytest.raises(Overdue):
        await site.run(["sleep", "600"], limit_s=1.0)


async def test_a_folder_is_made_by_one(site: Site, tmp_path: Path) -> None:
    made = await asyncio.gather(*(site.make_folder(tmp_path / "deep" / ODD) for _ in range(6)))
    assert sorted(made) == [False] * 5 + [True]
    assert (tmp_path / "deep" / ODD).stat().st_mode & 0o777 == 0o700


async def test_files_hold_what_was_written(site: Site, tmp_path: Path) -> None:
    path, data = tmp_path / ODD, bytes(range(256)) * 300 + b"\xff\n\x00"
    assert await site.read(path) is None
    assert not await site.is_file(path)
    await site.write(path, data)
    assert await site.is_file(path)
    assert await site.read(path) == data
    assert path.stat().st_mode & 0o777 == 0o600
    assert await site.piece(path, 0, 10) == data[:10]
    assert await site.piece(path, 70_000, 10**6) == data[70_000:]
    assert await site.piece(path, len(data), 10) == b""
    assert os.listdir(tmp_path) == [ODD]
    with pytest.raises(FileNotFoundError):
        await site.piece(tmp_path / "none", 0, 10)
    with pytest.raises(FileNotFoundError):
        await site.write(tmp_path / "none" / "file", b"x")


async def test_a_link_is_not_followed_to_what_it_names(site: Site, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush")
    (tmp_path / "output").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=r"."):
        await site.piece(tmp_path / "output", 0, 10)


async def test_one_file_of_each_folder(site: Site, tmp_path: Path) -> None:
    for name in ("a", "b-1", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "status.json").write_bytes(b'{"a":1}\n')
    (tmp_path / "b-1" / "status.json").write_bytes(b'{"b":"two words"}\n')
    found = await site.read_each(tmp_path, "status.json")
    assert {name: data.strip() for name, data in found.items()} == {"a": b'{"a":1}', "b-1": b'{"b":"two words"}'}
    assert await site.read_each(tmp_path / "none", "status.json") == {}
    (tmp_path / "a" / "stop.json").write_bytes(b"{}\n")
    some = await site.read_some(tmp_path / "a", ("stop.json", "none.json", "status.json"))
    assert {name: data.strip() for name, data in some.items()} == {"stop.json": b"{}", "status.json": b'{"a":1}'}
    assert await site.read_some(tmp_path / "none", ("stop.json",)) == {}


async def test_files_and_folders_are_brought_and_removed(site: Site, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / ODD).write_bytes(b"\x00" * 300_000)
    (source / "link").symlink_to(source / "deep" / ODD)
    await site.bring(source, tmp_path / "there" / "folder")
    assert (tmp_path / "there" / "folder" / "deep" / ODD).stat().st_size == 300_000
    assert not (tmp_path / "there" / "folder" / "link").is_symlink()
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    await site.bring(program, tmp_path / "there" / "renamed")
    assert os.access(tmp_path / "there" / "renamed", os.X_OK)
    assert sorted(entry.name for entry in (tmp_path / "there").iterdir()) == ["folder", "renamed"]
    with pytest.raises(FileNotFoundError):
        await site.bring(tmp_path / "none", tmp_path / "there" / "none")
    assert await site.remove(tmp_path / "there")
    assert await site.remove(tmp_path / "there")
    assert not (tmp_path / "there").exists()


async def test_a_host_that_is_not_there_was_surely_not_asked(ssh_door: Door) -> None:
    site = SshSite("no-such-host.invalid", {}, dict(os.environ), program=ssh_door.program)
    with pytest.raises(Unreachable):
        await site.run(["true"], limit_s=20.0)
    await site.close()


@pytest.mark.parametrize("host", ["-oProxyCommand=touch gone", "a b", "host;true", "", "$(true)"])
def test_a_host_is_a_name(host: str) -> None:
    with pytest.raises(ValueError, match="host"):
        SshSite(host, {}, {})


async def test_a_command_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    line = ["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 600"]
    waiting = asyncio.ensure_future(run_here(line, {"PATH": "/usr/bin:/bin"}, limit_s=60.0))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        await asyncio.wait([waiting], timeout=0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert state_of(int((tmp_path / "pid").read_text())) in (None, "Z", "X")
