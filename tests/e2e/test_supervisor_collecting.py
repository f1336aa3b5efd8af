"""Collection on a full disk, and collection that takes long: it waits, it is bounded, it can be stopped."""

import os
import subprocess
from pathlib import Path

import pytest

from placet.domain.allocations import Observation, Phase
from placet.ports.provider import Provider
from placet.testing.conformance.provider import ended, in_phase, observe, released
from tests.support.local import LocalWorld, launch_of, outputs, shell
from tests.support.missing import missing
from tests.support.waiting import wait_until_async

# Minutes of hashing, and hardly a byte on the disk.
HOLES = "truncate -s 60G $PLACET_OUTPUTS/o"


async def test_outputs_wait_for_room_on_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=False).returncode != 0:  # noqa: ASYNC221 - short
        missing("only root may mount a small disk")
    world = LocalWorld(folder=disk / "local")
    try:
        provider = await world.provider()
        # What is given up for the exit record would do for the manifest too: without it the disk is full for both.
        spec = shell(
            "head -c 4000000 /dev/zero > $PLACET_OUTPUTS/o; ln $PLACET_OUTPUTS/o $PLACET_OUTPUTS/second; exit 0",
            outputs=outputs(o="/outputs/o"),
        )
        filler = disk / "filler"
        filler.write_bytes(bytes(2_000_000))
        handle = await provider.submit(launch_of(spec, "full"))
        seen = await until_problem(provider, handle)
        assert "no space left" in seen.problem
        assert seen.computed
        assert seen.exit_code == 0
        assert not seen.collected
        filler.unlink()
        seen = await ended(provider, handle)
        assert [(found.name, found.size_bytes) for found in seen.outputs] == [("o", 4_000_000)]
        assert (seen.problem, seen.missing) == ("", ())
    finally:
        await world.close()
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: ASYNC221 - short


async def until_problem(provider: Provider, handle: object) -> Observation:
    async def look() -> Observation | None:
        seen = await observe(provider, handle)  # type: ignore[arg-type]  # a handle
        return seen if seen.problem else None

    seen = await wait_until_async(look, 20, "a problem")
    assert seen is not None
    return seen


@pytest.mark.parametrize("how", ["cancel", "limit"])
async def test_a_long_collection_ends_when_it_must(tmp_path: Path, how: str) -> None:
    options: dict[str, object] = {"output_bytes": 10**12}
    if how == "limit":
        options["collect_limit_s"] = 0.5
    world = LocalWorld(folder=tmp_path / "local", options=options)
    try:
        provider = await world.provider()
        handle = await provider.submit(launch_of(shell(HOLES, outputs=outputs(o="/outputs/o")), "long"))
        if how == "cancel":
            await in_phase(provider, handle, Phase.COLLECTING)
            await provider.cancel(handle, 0)
        seen = await ended(provider, handle, 10)
        assert seen.computed
        assert ("stopped on request" if how == "cancel" else "local.collect_seconds") in seen.problem
        assert str(world.path("long")) in seen.problem, "where the files are"
        assert world.path("long", "outputs", "o").stat().st_size == 60 * 1024**3
        await wait_until_async(lambda: not children(world), 10, "the end of the child that collected")
        await provider.release(handle)
        await released(provider, handle)
    finally:
        await world.close()


def children(world: LocalWorld) -> list[str]:
    """The children of the supervisor that live."""
    pid = world.supervisor_pid()
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if os.path.exists(f"/proc/{pid}") else []
