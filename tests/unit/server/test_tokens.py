"""Credentials: nothing usable is kept, nothing is told, and an end is an end."""

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import Request

from placet.adapters.ambient import RandomIds
from placet.adapters.store import make_store, migrate
from placet.ports.store import Store
from placet.server import problems, throttle, tokens
from placet.server.table import admit
from placet.server.throttle import FailedTokens, peer_of
from placet.server.tokens import (
    EVERY_SCOPE,
    Issued,
    LooseTokenFile,
    Principal,
    Scope,
    Throttled,
    TokenGate,
    Wish,
    issue,
)
from tests.support.asgi import http_scope

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
    assert isinstance(principal, Principal)
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


WRONG = "Bearer plct_0000000000000000_" + "0" * 64
PEER = "203.0.113.9"


async def test_a_peer_with_too_many_wrong_tokens_has_to_wait(gate: TokenGate, clock: HandClock) -> None:
    for _ in range(throttle.FAILURES_MOST):
        assert await gate.admit(WRONG, PEER) is None
    assert await gate.admit(WRONG, PEER) == Throttled(wait_s=round(throttle.FORGIVEN_EVERY_S))
    assert await gate.admit("nonsense", PEER) == Throttled(wait_s=round(throttle.FORGIVEN_EVERY_S))
    assert await gate.admit(None, PEER) is None  # nothing was shown: it learns that a token is needed
    assert await gate.admit(WRONG, "203.0.113.10") is None  # others are others
    assert await gate.admit(WRONG) is None  # the unix socket has no peers
    clock.moved_s += throttle.FORGIVEN_EVERY_S
    assert await gate.admit(WRONG, PEER) is None
    assert isinstance(await gate.admit(WRONG, PEER), Throttled)
    clock.moved_s += throttle.FAILURES_MOST * throttle.FORGIVEN_EVERY_S
    for _ in range(throttle.FAILURES_MOST):
        assert await gate.admit(WRONG, PEER) is None


async def test_a_neighbour_with_a_known_token_goes_on(store: Store, gate: TokenGate, clock: HandClock) -> None:
    issued, unseen = await made(store), await made(store)
    assert isinstance(await gate.admit(f"Bearer {issued.text}", PEER), Principal)
    for _ in range(throttle.FAILURES_MOST):
        await gate.admit(WRONG, PEER)
    clock.moved_s += tokens.CACHED_S / 10
    assert isinstance(await gate.admit(f"Bearer {issued.text}", PEER), Principal)
    assert isinstance(await gate.admit(f"Bearer {unseen.text}", PEER), Throttled)
    assert isinstance(await gate.admit(f"Bearer plct_{issued.token.id}_{'0' * 64}", PEER), Throttled)
    await store.revoke_token(issued.token.id, NOW_MS)
    gate.forget(issued.token.id)
    assert isinstance(await gate.admit(f"Bearer {issued.text}", PEER), Throttled)


async def test_the_refusal_says_how_long_to_wait(gate: TokenGate) -> None:
    scope = http_scope("GET", "/x", [("authorization", WRONG)], server=("127.0.0.1", 7468))
    request = Request({**scope, "client": (PEER, 4711)})
    for code, headers in [
        *[(problems.UNAUTHORIZED, {})] * throttle.FAILURES_MOST,
        (problems.TOO_MANY, {"retry-after": "6"}),
    ]:
        with pytest.raises(problems.Refusal) as caught:
            await admit(request, gate, Scope.READ)
        assert (caught.value.code, caught.value.headers) == (code, headers)


def test_few_peers_are_remembered_however_many_come(clock: HandClock) -> None:
    failed = FailedTokens(clock)
    for number in range(throttle.PEERS_MAX + 100):
        failed.count(f"peer {number}")
    assert len(failed) == throttle.PEERS_MAX


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (None, None),
        ("", None),
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_whom_an_address_stands_for(address: str | None, peer: str | None) -> None:
    assert peer_of(address) == peer


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
    assert isinstance(principal, Principal)
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
    assert isinstance(principal, Principal)
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
