"""What a test needs and a machine lacks: skipped with the reason, failed where CI=true."""

import os
import shutil
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skips visibly on a contributor's machine and fails in continuous integration."""
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(reason)
    pytest.skip(reason)


def need_bubblewrap() -> None:
    """For what is proved inside a sandbox only."""
    if shutil.which("bwrap") is None:
        missing("bubblewrap is not installed; scripts/system-packages installs it")
