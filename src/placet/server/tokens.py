"""Credentials: ``plct_<lookup id>_<secret>``, of which only a digest is kept. A token is a right, not a person.

Nothing here says why a token was refused: every refusal looks the same from outside.
"""

import hashlib
import hmac
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from placet.contract.words import Scope as Scope
from placet.domain.records import Token
from placet.failpoints import Point, around, passing
from placet.ports.ambient import Clock, Ids
from placet.ports.store import Store
from placet.server.throttle import FailedTokens

PREFIX = "plct"
LOCAL_TENANT = "local"
LOCAL_NAME = "owner of the data folder"
ID_LENGTH = 16
# How long an answer of the store is believed; a revocation by another process is felt at most this much later.
CACHED_S = 5.0
CACHED_MAX = 4096
SHAPE = re.compile(r"Bearer +plct_([0-9a-z]{8,32})_([0-9A-Za-z]{32,128})", re.ASCII)
NAME_MAX = 100


EVERY_SCOPE = tuple(Scope)


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who asks: one token, its tenant and its scopes."""

    token_id: str
    tenant: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        return scope.value in self.scopes


@dataclass(frozen=True, kw_only=True)
class Issued:
    """A new token; ``text`` is shown once and kept nowhere."""

    token: Token
    text: str


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The token somebody wants."""

    name: str
    tenant: str
    scopes: tuple[Scope, ...]
    expires_ms: int | None = None


def issue(wish: Wish, ids: Ids, now_ms: int) -> Issued:
    """A fresh token: a public lookup id and 256 random bits. Storing it is the caller's part."""
    token_id = _letters(ids.nonce())[:ID_LENGTH]
    secret = hashlib.sha256(f"{ids.nonce()}{ids.nonce()}{ids.nonce()}".encode()).hexdigest()
    token = Token(
        id=token_id,
        digest=digest_of(secret),
        name=wish.name,
        tenant=wish.tenant,
        scopes=tuple(sorted(scope.value for scope in wish.scopes)),
        created_ms=now_ms,
        expires_ms=wish.expires_ms,
    )
    return Issued(token=token, text=f"{PREFIX}_{token_id}_{secret}")


def digest_of(secret: str) -> str:
    """A plain hash is enough for 256 random bits; it would not be for a password."""
    return hashlib.sha256(secret.encode()).hexdigest()


def widening(creator: Principal, scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """The wanted scopes that the creator does not hold; a token never makes a wider one."""
    return tuple(scope for scope in scopes if not creator.may(scope))


@dataclass(frozen=True, kw_only=True)
class Throttled:
    """This peer showed too many wrong tokens; its next one is looked at after so many seconds."""

    wait_s: int


class TokenGate:
    """Turns an ``Authorization`` header into a principal, or nothing; it never says why not."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, Token | None]] = OrderedDict()
        self._failed = FailedTokens(clock)

    async def admit(self, authorization: str | None, peer: str | None = None) -> Principal | Throttled | None:
        """The principal of a live token whose secret matches.

        A peer over its limit is not looked up any more, unless it names a token that was known here of late: neighbours
        behind the same address go on.
        """
        match = SHAPE.fullmatch(authorization or "")
        wait_s = self._failed.wait_s(peer) if authorization else 0
        if wait_s and (match is None or not self._known(match[1])):
            return Throttled(wait_s=wait_s)
        principal = None if match is None else await self._checked(match[1], match[2])
        if principal is None and authorization:
            self._failed.count(peer)
            return Throttled(wait_s=wait_s) if wait_s else None
        return principal

    def _known(self, token_id: str) -> bool:
        held = self._cache.get(token_id)
        return held is not None and held[1] is not None

    async def _checked(self, token_id: str, secret: str) -> Principal | None:
        token = await self._lookup(token_id)
        # The comparison happens for unknown ids too, so that time tells nothing about them.
        matches = hmac.compare_digest(token.digest if token else digest_of(""), digest_of(secret))
        if token is None or not matches or not self._live(token):
            return None
        return Principal(token_id=token.id, tenant=token.tenant, scopes=frozenset(token.scopes))

    async def still_valid(self, principal: Principal) -> bool:
        """Is the token behind an open stream still one?"""
        token = await self._lookup(principal.token_id)
        return token is not None and self._live(token)

    def forget(self, token_id: str) -> None:
        """The next use asks the store: called where a token changes."""
        self._cache.pop(token_id, None)

    def _live(self, token: Token) -> bool:
        return token.revoked_ms is None and (token.expires_ms is None or self._clock.now_ms() < token.expires_ms)

    async def _lookup(self, token_id: str) -> Token | None:
        now_s = self._clock.monotonic_s()
        cached = self._cache.get(token_id)
        if cached is not None and now_s - cached[0] < CACHED_S:
            return cached[1]
        token = await self._store.token(token_id)
        self._cache[token_id] = (now_s, token)
        self._cache.move_to_end(token_id)
        while len(self._cache) > CACHED_MAX:
            self._cache.popitem(last=False)
        return token


class LooseTokenFile(Exception):
    """The token file can be read by others; its token must be taken for known."""


async def ensure_local_token(store: Store, ids: Ids, now_ms: int, path: Path) -> None:
    """The owner's own token, in a file only the owner can read; made when there is none that works.

    Raises:
        LooseTokenFile: the file's mode lets others read it.
    """
    match = _own(path)
    if match is not None:
        known = await store.token(match[1])
        genuine = known and known.revoked_ms is None and hmac.compare_digest(known.digest, digest_of(match[2]))
        # One from before a scope existed lacks it: its owner gets another.
        if known and genuine and set(known.scopes) >= {scope.value for scope in EVERY_SCOPE}:
            return
    issued = issue(Wish(name=LOCAL_NAME, tenant=LOCAL_TENANT, scopes=EVERY_SCOPE), ids, now_ms)
    await passing(Point.CREDENTIAL, store.add_token(issued.token))
    _write_private(path, issued.text + "\n")


def _own(path: Path) -> re.Match[str] | None:
    """The parts of the token in the file, if there is one."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    if mode & 0o077:
        raise LooseTokenFile(
            f"{path} can be read by others. Revoke that token (placet token revoke) or delete the file, "
            "then start again: a new one is made."
        )
    return SHAPE.fullmatch("Bearer " + path.read_text(encoding="ascii", errors="replace").strip())


def _write_private(path: Path, text: str) -> None:
    """Atomic, and never readable by others, not even for a moment."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    with around(Point.CREDENTIAL_FILE):
        draft.replace(path)


def _letters(nonce: str) -> str:
    return re.sub(r"[^0-9a-z]", "", nonce.lower())
