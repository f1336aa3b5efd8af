"""A server that cannot do its work says why when it is started, and is not there."""

from pathlib import Path

import pytest

from placet.app import CannotServe
from tests.support.served import served


def test_a_provider_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    taken = tmp_path / "a file"
    taken.write_text("no folder")
    with (
        pytest.raises(CannotServe, match="a provider cannot be used: its folder"),
        served(tmp_path / "data", local={"folder": taken}),
    ):
        raise AssertionError("it serves without its provider")
