"""Files of an operator: settings and copies of the database. They are used, or refused with a sentence."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.adapters.store.backup import CannotCopy, check
from placet.config import SettingsError, load_settings
from tests.support.fuzzing import fuzz, soon

words = st.sampled_from(
    ["data_dir", "engine", "providers", "local", "slots", "port", "host", "database_url", "log_level", "x", '"\\u0000"']
)
values = st.sampled_from(
    [
        "1",
        "-1",
        "true",
        "nan",
        "1e400",
        '"x"',
        '"~nobody-of-that-name/x"',
        "[]",
        "{}",
        "[{a=1}]",
        "2026-01-01",
        "''",
        "0x",
    ]
)
lines = st.one_of(
    st.tuples(words, values).map(" = ".join),
    words.map("[{}]".format),
    st.tuples(words, words).map(lambda pair: f"[[{pair[0]}.{pair[1]}]]"),
    st.text(max_size=20),
)
files = st.one_of(
    st.binary(max_size=80),
    st.lists(lines, max_size=6).map(lambda each: "\n".join(each).encode("utf-8", "surrogatepass")),
)


@fuzz
@given(files)
@example(b"x = " + b"[" * 100_000)
@example(b"x = " + b"9" * 5_000)
@example(b"port = " + b"9" * 5_000)
@example(b'data_dir = "~nobody-of-that-name/x"')
@example(b'data_dir = "a\\u0000b"')
@example(b"\xff")
def test_settings_are_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path: Path = tmp_path_factory.mktemp("settings") / "placet.toml"
    path.write_bytes(content)
    with soon(5):
        try:
            load_settings(path)
        except SettingsError:
            return


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("copy") / "copy"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        made.execute("INSERT INTO alembic_version VALUES ('0001')")
    made.close()
    assert check(path) == "0001"
    return path.read_bytes()


@fuzz
@given(at=st.integers(0, 8_192), patch=st.binary(max_size=40), cut=st.integers(0, 8_192))
@example(at=0, patch=b"", cut=0)
@example(at=18, patch=b"\x02\x02", cut=8_192)
@example(at=56, patch=b"\0\0\0\2", cut=8_192)
def test_a_copy_is_sound_or_refused(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, at: int, patch: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("copy") / "copy"
    path.write_bytes((whole[:at] + patch + whole[at + len(patch) :])[:cut])
    with soon():
        try:
            assert check(path)
        except CannotCopy:
            return
