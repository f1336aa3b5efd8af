"""Logs: bytes as they were written, whatever and however much, with flat memory and every loss marked."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.domain.allocations import LogChunk, Phase
from placet.testing.conformance.provider import ended, in_phase, read
from tests.support.local import LocalWorld, launch_of, process_spec, shell
from tests.support.waiting import wait_until

MB = 1_000_000
WRITER = """
import hashlib, os, sys
piece = os.urandom(1_000_000)
whole = hashlib.sha256()
for _ in range(int(sys.argv[1])):
    view = memoryview(piece)
    while view:
        view = view[os.write(1, view):]
    whole.update(piece)
os.write(2, whole.hexdigest().encode())
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    world = LocalWorld(folder=tmp_path / "local", options={"log_bytes": 200 * MB})
    yield world
    await world.close()


def resident_bytes(pid: int | None) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def joined(chunks: list[LogChunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


async def test_random_bytes_and_a_huge_line_with_flat_memory(world: LocalWorld) -> None:
    import sys

    await world.run(launch_of(process_spec("/bin/true"), "warm"))
    before = resident_bytes(world.supervisor_pid())
    launch = launch_of(process_spec(sys.executable, "-c", WRITER, "64"), "flood")
    line = launch_of(shell("head -c 100000000 /dev/zero | tr '\\0' x"), "line")
    seen = await world.run(launch)
    assert resident_bytes(world.supervisor_pid()) - before < 8 * MB
    stdout, stderr = seen.logs
    assert (stdout.bytes_total, stdout.bytes_kept, stdout.gaps) == (64 * MB, 64 * MB, ())
    digest = hashlib.sha256()
    async for chunk in world.opened[0].logs(await one_handle(world, "flood"), "stdout", 0):
        digest.update(chunk.data)
    assert world.path("flood", "logs", "stderr").read_text() == digest.hexdigest()
    assert stderr.bytes_total == 64
    seen = await world.run(line)
    assert seen.logs[0].bytes_total == 100 * MB
    assert resident_bytes(world.supervisor_pid()) - before < 8 * MB


async def one_handle(world: LocalWorld, key: str):  # type: ignore[no-untyped-def]  # a test's shorthand
    return (await world.opened[0].find(key))[0]


async def test_what_passes_the_bound_is_counted_and_marked(tmp_path: Path) -> None:
    world = LocalWorld(folder=tmp_path / "local", options={"log_bytes": 1000})
    seen = await world.run(launch_of(shell("head -c 5000000 /dev/zero; echo done >&2"), "much"))
    assert seen.computed
    assert (seen.logs[0].bytes_total, seen.logs[0].bytes_kept, seen.logs[0].gaps) == (5 * MB, 1000, ((1000, 4999000),))
    chunks = await read(world.opened[0], await one_handle(world, "much"), "stdout", 0)
    assert joined(chunks) == bytes(1000)
    assert chunks[-1].final
    assert (chunks[-1].offset, chunks[-1].dropped) == (5 * MB, 4999000)
    await world.close()


async def test_any_bytes_are_carried(world: LocalWorld) -> None:
    script = r"printf '\377\376\000\033[31m\r\n\303\050'; printf 'no end of line' >&2"
    seen = await world.run(launch_of(shell(script), "bytes"))
    handle = await one_handle(world, "bytes")
    assert joined(await read(world.opened[0], handle, "stdout", 0)) == b"\xff\xfe\x00\x1b[31m\r\n\xc3("
    assert joined(await read(world.opened[0], handle, "stderr", 0)) == b"no end of line"
    assert [seal.bytes_total for seal in seen.logs] == [12, 14]


async def test_a_running_program_can_be_followed(world: LocalWorld) -> None:
    provider = await world.provider()
    handle = await provider.submit(launch_of(shell("mkfifo f; echo one; read x < f; echo two; exit 0"), "follow"))
    await in_phase(provider, handle, Phase.RUNNING)
    log = world.path("follow", "logs", "stdout")
    wait_until(lambda: log.exists() and log.stat().st_size, 10, "the first line")
    first = await read(provider, handle, "stdout", 0)
    assert joined(first) == b"one\n"
    assert not any(chunk.final for chunk in first)
    world.path("follow", "work", "f").write_text("go\n")
    await ended(provider, handle)
    rest = await read(provider, handle, "stdout", 4)
    assert joined(rest) == b"two\n"
    assert rest[-1].final


async def test_one_that_never_stops_writing_starves_nobody(world: LocalWorld) -> None:
    provider = await world.provider()
    noisy = await provider.submit(launch_of(process_spec("/bin/cat", "/dev/zero"), "noisy"))
    await in_phase(provider, noisy, Phase.RUNNING)
    for number in range(5):
        assert (await world.run(launch_of(shell("echo quick"), f"quick-{number}"), 10)).computed
    await provider.cancel(noisy, 0)
    seen = await ended(provider, noisy)
    assert seen.logs[0].bytes_total > MB


async def test_a_pipe_that_a_daemon_inherited_is_sealed_when_the_main_process_ends(world: LocalWorld) -> None:
    seen = await world.run(launch_of(shell("(setsid sleep 600) & echo done"), "held"))
    assert seen.computed
    assert [seal.bytes_total for seal in seen.logs] == [5, 0]
