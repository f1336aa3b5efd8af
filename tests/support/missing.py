"""What a test needs and a machine lacks: skipped with the reason, failed where CI=true. And what is not built yet."""

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


def not_built(capability: str) -> pytest.MarkDecorator:
    """A test of what the product cannot be asked yet. It is no lack of the machine, so it is skipped everywhere."""
    return pytest.mark.skip(reason=f"not built: needs {capability}")
