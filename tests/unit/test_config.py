"""Settings come from four places in order, and a mistake in any of them is said, not ignored."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from placet.config import Settings, SettingsError, load_settings
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


def parts_of(annotation: object) -> Iterator[object]:
    yield annotation
    for inner in get_args(annotation):
        yield from parts_of(inner)


def numbers(section: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str]]:
    for name, field in section.model_fields.items():
        for part in parts_of(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from numbers(part)
            elif part in (int, float, Decimal):
                yield section, name


SIGNED = {"clock_offset_seconds"}
NUMBERS = sorted(set(numbers(Settings)), key=lambda item: (item[0].__name__, item[1]))


def test_the_numbers_are_found() -> None:
    names = {name for _, name in NUMBERS}
    assert {"price_per_hour", "cpu_cores", "memory", "memory_gb", "port", "rows_max", "exploration", "disk"} <= names


@pytest.mark.parametrize(
    ("section", "name"), NUMBERS, ids=lambda part: part if isinstance(part, str) else part.__name__
)
@pytest.mark.parametrize(
    "beyond", ["1e30", 1e300, 10**17, -1, -1e300, "nan", "inf", float("nan"), float("inf")], ids=str
)
def test_every_number_has_bounds_in_words(section: type[BaseModel], name: str, beyond: object) -> None:
    if name in SIGNED and beyond == -1:
        beyond = -(10**6)
    with pytest.raises(ValidationError) as caught:
        section.model_validate({name: beyond})
    assert name in [error["loc"][0] for error in caught.value.errors() if error["loc"]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[local]\nprice_per_hour = '1e30'\n", "local.price_per_hour: .*less than or equal to 1000000"),
        ("[local]\nprice_per_hour = 1e-9\n", "local.price_per_hour: .*6 decimal places"),
        ("[local]\ncpu_cores = 1e300\n", "local.cpu_cores: .*less than or equal to 100000"),
        ("[local]\nmemory = '1B'\n", "local.memory: .*greater than or equal to 1048576"),
        ("[engine]\npoll_seconds = 1e-300\n", "engine.poll_seconds: .*greater than or equal to 0.001"),
        ("[[local.gpus]]\nmodel = 'L4'\nmemory_gb = 1e-30\n", "local.gpus.0.memory_gb: .*decimal places"),
    ],
)
def test_a_number_out_of_its_bounds_is_told_with_the_bound(tmp_path: Path, text: str, told: str) -> None:
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
