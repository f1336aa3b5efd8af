"""Why a background server did not start."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.sdk.errors import Unreachable
from placet.sdk.starting import ensure_server
from tests.support.missing import missing


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a small disk that has no byte left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False)
    if mounted.returncode != 0:
        missing("only root may mount a small disk")
    try:
        (disk / "data").mkdir()
        subprocess.run(["dd", "if=/dev/zero", f"of={disk / 'filler'}", "bs=4k"], check=False, capture_output=True)
        yield disk / "data"
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_named_as_the_reason(full_disk: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        ensure_server(full_disk)
    assert "full" in str(caught.value)
    assert "free some space" in caught.value.fix
