"""Credentials: nothing usable is kept, nothing is told, and an end is an end."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.adapters.ambient import RandomIds
from placet.adapters.store import make_store, migrate
from placet.ports.store import Store
from placet.server import tokens
from placet.server.tokens import EVERY_SCOPE, Issued, LooseTokenFile, Principal, Scope, TokenGate, Wish, issue

NOW_MS = 1_800_000_000_000
IDS = RandomIds()


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.moved_s = 0.0

    def now_ms(self) -> int:
        return NOW_MS + int(self.moved_s * 1000)

    def monotonic_s(self) -> float:
        return self.moved_s

    async def pause(self, duration_s: float) -> None:
        self.moved_s += duration_s


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite:///{tmp_path / 'placet.db'}"
    migrate(url)
    opened = make_store(url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def gate(store: Store, clock: HandClock) -> TokenGate:
    return TokenGate(store, clock)


async def made(store: Store, expires_ms: int | None = None, scopes: tuple[Scope, ...] = (Scope.READ,)) -> Issued:
    issued = issue(Wish(name="n", tenant="t", scopes=scopes, expires_ms=expires_ms), IDS, NOW_MS)
    await store.add_token(issued.token)
    return issued


def test_a_token_has_256_random_bits_and_only_their_digest_is_kept() -> None:
    wish = Wish(name="n", tenant="t", scopes=(Scope.READ,))
    issued = [issue(wish, IDS, NOW_MS) for _ in range(100)]
    assert len({one.token.id for one in issued}) == 100
    prefix, token_id, secret = issued[0].text.split("_")
    assert (prefix, token_id) == ("plct", issued[0].token.id)
    assert len(secret) * 4 == 256
    assert secret not in repr(issued[0].token)
    assert issued[0].token.digest == tokens.digest_of(secret)


async def test_the_right_token_is_a_principal(store: Store, gate: TokenGate) -> None:
    issued = await made(store)
    principal = await gate.admit(f"Bearer {issued.text}")
    assert principal == Principal(token_id=issued.token.id, tenant="t", scopes=frozenset({"workload:read"}))
    assert principal is not None
    assert principal.may(Scope.READ)
    assert not principal.may(Scope.SUBMIT)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer {id}",
        "{text}",
        "bearer {text}",
        "Basic {text}",
        "Bearer {text}0",
        "Bearer {text} ",
        "Bearer plct_{id}_" + "0" * 64,
        "Bearer plct_0000000000000000_{secret}",
        "Bearer plct_{id}_",
        "Bearer xxxx_{id}_{secret}",
        "Bearer plct_{id}_{secret}\n",
    ],
)
async def test_anything_else_is_nobody(store: Store, gate: TokenGate, header: str | None) -> None:
    issued = await made(store)
    _, token_id, secret = issued.text.split("_")
    told = header and header.format(text=issued.text, id=token_id, secret=secret)
    assert await gate.admit(told) is None


async def test_expiry_acts_to_the_millisecond(store: Store, gate: TokenGate, clock: HandClock) -> None:
    issued = await made(store, expires_ms=NOW_MS + 10_000)
    clock.moved_s = 9.999
    assert await gate.admit(f"Bearer {issued.text}")
    clock.moved_s = 10.0
    assert await gate.admit(f"Bearer {issued.text}") is None


async def test_revocation_acts_at_once_here_and_within_five_seconds_elsewhere(
    store: Store, gate: TokenGate, clock: HandClock
) -> None:
    issued = await made(store)
    elsewhere = TokenGate(store, clock)
    principal = await gate.admit(f"Bearer {issued.text}")
    assert principal is not None
    assert await elsewhere.admit(f"Bearer {issued.text}")
    await store.revoke_token(issued.token.id, NOW_MS)
    gate.forget(issued.token.id)
    assert await gate.admit(f"Bearer {issued.text}") is None
    assert not await gate.still_valid(principal)
    clock.moved_s = 5.0
    assert await elsewhere.admit(f"Bearer {issued.text}") is None
    assert not await elsewhere.still_valid(principal)


async def test_a_new_token_works_although_its_id_was_asked_for_before(store: Store, gate: TokenGate) -> None:
    issued = issue(Wish(name="n", tenant="t", scopes=()), IDS, NOW_MS)
    assert await gate.admit(f"Bearer {issued.text}") is None
    await store.add_token(issued.token)
    gate.forget(issued.token.id)
    assert await gate.admit(f"Bearer {issued.text}")


def test_no_token_makes_a_wider_one() -> None:
    creator = Principal(token_id="a", tenant="t", scopes=frozenset({"workload:read", "token:admin"}))
    assert tokens.widening(creator, (Scope.READ, Scope.TOKENS)) == ()
    assert tokens.widening(creator, (Scope.READ, Scope.SUBMIT)) == (Scope.SUBMIT,)


async def test_the_owners_token_is_made_once_and_private(store: Store, gate: TokenGate, tmp_path: Path) -> None:
    path = tmp_path / "token"
    await tokens.ensure_local_token(store, IDS, NOW_MS, path)
    text = path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    principal = await gate.admit(f"Bearer {text}")
    assert principal is not None
    assert principal.scopes == {scope.value for scope in EVERY_SCOPE}
    await tokens.ensure_local_token(store, IDS, NOW_MS, path)
    assert path.read_text().strip() == text
    assert len(await store.tokens()) == 1


async def test_a_revoked_or_foreign_token_in_the_file_is_replaced(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "token"
    await tokens.ensure_local_token(store, IDS, NOW_MS, path)
    first = path.read_text()
    await store.revoke_token((await store.tokens())[0].id, NOW_MS)
    await tokens.ensure_local_token(store, IDS, NOW_MS, path)
    second = path.read_text()
    path.write_text("nonsense")
    await tokens.ensure_local_token(store, IDS, NOW_MS, path)
    assert len({first, second, path.read_text()}) == 3


async def test_a_token_file_for_all_to_read_is_refused(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "token"
    await tokens.ensure_local_token(store, IDS, NOW_MS, path)
    path.chmod(0o644)
    with pytest.raises(LooseTokenFile, match="can be read by others"):
        await tokens.ensure_local_token(store, IDS, NOW_MS, path)
