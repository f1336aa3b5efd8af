"""Errors of the system as words and exit codes."""

import errno
import json
import os

import pytest

from placet.cli import failures
from placet.cli.exits import Exit


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("names", [(), ("/somewhere/placet.db",)])
def test_a_full_disk_is_no_fault_of_placet(
    number: int, names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code = failures.tell(OSError(number, os.strerror(number), *names), as_json=True)
    told = json.loads(capsys.readouterr().out)["error"]
    assert code == told["exit_code"] == Exit.ERROR
    assert told["code"] == "disk_full"
    assert "no space left on the disk" in told["what"]
    assert "free some space" in told["fix"]
    assert "fault of Placet" not in told["why"]


def test_an_unknown_error_of_the_system_stays_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.tell(OSError(errno.EIO, "bad"), as_json=False) == Exit.FAULT
    assert "internal_error" in capsys.readouterr().err
