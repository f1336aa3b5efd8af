"""A skip is for contributors: continuous integration has everything, or says what it lacks."""

import pytest

from tests.support import missing


@pytest.mark.parametrize("said", ["true", "1", "TRUE", "yes"])
def test_continuous_integration_fails_for_what_it_lacks(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("CI", said)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.fail.Exception, match="bubblewrap"):
        missing.need_bubblewrap()


@pytest.mark.parametrize("said", [None, "", "false", "0"])
def test_a_contributor_sees_a_skip(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    monkeypatch.delenv("CI", raising=False)
    if said is not None:
        monkeypatch.setenv("CI", said)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="bubblewrap"):
        missing.need_bubblewrap()
