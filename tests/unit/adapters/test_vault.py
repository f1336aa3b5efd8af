"""Sealing: what was sealed opens as what it was and as nothing else, and keys come from where nobody else reads."""

import base64
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.adapters.vault import Envelopes, KeyPlaces, key_file, key_file_made, key_id, read_keys
from placet.domain.vault import Sealed
from placet.ports.vault import CannotOpen, NoKey, UnusableKey

OLD, NEW = (base64.b64encode(bytes([letter]) * 32).decode() for letter in b"on")
BARE = Sealed(
    tenant="acme", name="hub", version=1, key_id="", wrapped="", body="", created_ms=1, created_by="t"
)  # fmt: skip


def cipher(*keys: str) -> Envelopes:
    return Envelopes(lambda _: read_keys("\n".join(keys), "here"))


@given(st.binary(min_size=1, max_size=200))
def test_it_opens_as_what_it_was_and_the_same_value_is_never_the_same_text(value: bytes) -> None:
    sealed, again = cipher(OLD).seal(BARE, value), cipher(OLD).seal(BARE, value)
    assert cipher(OLD).open(sealed) == value
    assert {sealed.body, sealed.wrapped}.isdisjoint({again.body, again.wrapped})
    if len(value) > 8:
        assert value not in base64.b64decode(sealed.body) + base64.b64decode(sealed.wrapped)


@given(st.data())
def test_no_byte_can_be_changed(data: st.DataObject) -> None:
    sealed = cipher(OLD).seal(BARE, b"value of a secret")
    part = data.draw(st.sampled_from(("body", "wrapped")))
    raw = bytearray(base64.b64decode(getattr(sealed, part)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CannotOpen):
        cipher(OLD).open(replace(sealed, **{part: base64.b64encode(raw).decode()}))


@given(st.data())
def test_no_letter_can_be_changed_added_or_taken_away(data: st.DataObject) -> None:
    sealed = cipher(OLD).seal(BARE, b"value of a secret")
    part = data.draw(st.sampled_from(("body", "wrapped", "key_id")))
    text = getattr(sealed, part)
    at = data.draw(st.integers(0, len(text)))
    letter = data.draw(st.characters(min_codepoint=32, max_codepoint=300) | st.just(""))
    other = text[:at] + letter + text[at + data.draw(st.integers(0, 3)) :]
    if other != text:
        with pytest.raises(CannotOpen):
            cipher(OLD).open(replace(sealed, **{part: other}))


@pytest.mark.parametrize("change", [{"tenant": "other"}, {"name": "hub2"}, {"version": 2}])
def test_a_row_cannot_stand_in_for_another(change: dict[str, object]) -> None:
    sealed = cipher(OLD).seal(BARE, b"value")
    with pytest.raises(CannotOpen):
        cipher(OLD).open(replace(sealed, **change))  # type: ignore[arg-type]  # fields by name


def test_letters_cannot_move_between_tenant_and_name() -> None:
    sealed = cipher(OLD).seal(replace(BARE, tenant="ab", name="c"), b"value")
    with pytest.raises(CannotOpen):
        cipher(OLD).open(replace(sealed, tenant="a", name="bc"))


def test_the_parts_of_two_secrets_cannot_be_mixed() -> None:
    one, two = cipher(OLD).seal(BARE, b"one"), cipher(OLD).seal(BARE, b"two")
    with pytest.raises(CannotOpen):
        cipher(OLD).open(replace(one, body=two.body))


def test_a_new_key_seals_and_the_old_one_opens_until_all_is_rewrapped() -> None:
    sealed = cipher(OLD).seal(BARE, b"value")
    both = cipher(NEW, OLD)
    assert both.open(sealed) == b"value"
    moved = both.rewrap(sealed)
    assert (moved.body, moved.key_id) == (sealed.body, key_id(b"n" * 32))
    assert cipher(NEW).open(moved) == b"value"
    for keys, secret in (((NEW,), sealed), ((OLD,), moved)):
        with pytest.raises(CannotOpen, match="not set here"):
            cipher(*keys).open(secret)


@pytest.mark.parametrize("text", ["", "  \n", "short", "AAAA", OLD[:-4], f"{OLD} nonsense!", "é" * 43])
def test_what_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UnusableKey) as refused:
        read_keys(text, "secrets.key")
    assert not text.strip() or text not in str(refused.value)


def test_our_own_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret.key"
    first = key_file_made(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key_file_made(path).keys == first.keys == key_file(path).keys
    assert [each.name for each in path.parent.iterdir()] == ["secret.key"]


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(OLD)
    path.chmod(0o640)
    with pytest.raises(UnusableKey, match="chmod 600"):
        key_file(path)
    path.chmod(0o600)
    path.write_text("A" * 70_000)
    with pytest.raises(UnusableKey):
        key_file(path)
    with pytest.raises(UnusableKey, match="No such file"):
        key_file(tmp_path / "none")


def test_our_own_key_is_not_made_anew_to_open_what_another_sealed(tmp_path: Path) -> None:
    own = tmp_path / "secret.key"
    lost = Envelopes(KeyPlaces(own=own).ring)
    with pytest.raises(NoKey, match="put back the key"):
        lost.open(cipher(OLD).seal(BARE, b"value"))
    assert not own.exists()
    assert lost.open(lost.seal(BARE, b"value")) == b"value"
    with pytest.raises(NoKey, match="share a database"):
        KeyPlaces().ring(make=True)


def test_where_others_come_in_a_key_must_be_set(tmp_path: Path) -> None:
    with pytest.raises(UnusableKey, match="can be reached from other machines"):
        KeyPlaces(own=tmp_path / "secret.key").check("example.org")
    KeyPlaces(own=tmp_path / "secret.key").check(None)
    KeyPlaces(text=OLD).check("example.org")
    with pytest.raises(UnusableKey, match="No such file"):
        KeyPlaces(file=tmp_path / "none").check(None)
    assert OLD not in repr(KeyPlaces(text=OLD))
