"""Settings come from four places in order, and a mistake in any of them is said, not ignored."""

from pathlib import Path

import pytest

from placet.config import SettingsError, load_settings
from placet.sdk import places


@pytest.fixture(autouse=True)
def no_file_of_mine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings()
    assert settings.data_dir == tmp_path / "share" / "placet"
    assert settings.database == f"sqlite:///{tmp_path}/share/placet/placet.db"
    assert settings.server.host == "127.0.0.1"
    assert not settings.server.allow_remote_without_tls


def test_callers_win_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "placet.toml"
    file.write_text("[server]\nport = 1\nhost = '::1'\n[local]\nslots = 1\nmemory = '24GB'\n")
    monkeypatch.setenv("PLACET_SERVER__PORT", "2")
    monkeypatch.setenv("PLACET_LOCAL__SLOTS", "2")
    settings = load_settings(file, {"local": {"slots": 3}})
    assert (settings.server.host, settings.server.port) == ("::1", 2)
    assert (settings.local.slots, settings.local.memory) == (3, 24 * 10**9)


def test_the_file_in_the_users_configuration_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "placet"
    folder.mkdir(parents=True)
    (folder / "placet.toml").write_text("[storage]\ndatasets = '/srv/datasets'\n")
    assert load_settings().storage == {"datasets": "/srv/datasets"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colour = 'red'\n", "colour"),
        ("[local]\nslotz = 1\n", "local.slotz"),
        ("[local]\nmemory = '24 parsecs'\n", "local.memory"),
        ("[server]\ntls_key = '/k.pem'\n", "belong together"),
        ("[engine]\nlease_seconds = 3\n", "three times"),
        ("[server\n", "placet.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "placet.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=told):
        load_settings(file)


@pytest.mark.parametrize("name", ["PLACET_PORT", "PLACET_SERVER__PRT"])
def test_a_misspelt_variable_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError):
        load_settings()


def test_what_a_workload_sees_does_not_confuse_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACET_WORKLOAD_ID", "PLACET_ATTEMPT", "PLACET_URL", "PLACET_TOKEN"):
        monkeypatch.setenv(name, "x")
    load_settings()


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_settings(tmp_path / "none.toml")


def test_a_socket_path_always_fits(tmp_path: Path) -> None:
    assert places.socket_path(Path("/data")) == Path("/data/server.sock")
    deep = tmp_path / ("d" * 120)
    short = places.socket_path(deep)
    assert len(str(short)) <= places.LONGEST_SOCKET_PATH_BYTES
    assert short == places.socket_path(deep)
    assert short != places.socket_path(tmp_path / ("e" * 120))
