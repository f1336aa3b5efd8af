"""Secrets of tenants: kept sealed, named in specs, opened when an attempt is sent. Values are never handed back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placet.domain.problems import Problem
from placet.domain.spec import Spec
from placet.domain.vault import VALUE_BYTES_MAX, Sealed
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.store import Store
from placet.ports.vault import CannotOpen, Cipher, NoKey

SECRETS_MAX = 1000
# The newest version is what attempts get; the one before is kept for a look back, opened for nobody.
VERSIONS_KEPT = 2
REWRAP_PAGE = 500


@dataclass(frozen=True, kw_only=True)
class Refused:
    """It is not done; ``why`` is fit for whoever asked."""

    why: str
    fix: str


class Unresolved(Exception):
    """A secret that a workload names cannot be had now; the message names it. ``passing`` when that may end."""

    def __init__(self, message: str, *, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


class Vault:
    """The use cases, each for one tenant."""

    def __init__(self, store: Store, clock: Clock, cipher: Cipher) -> None:
        self._store = store
        self._clock = clock
        self._cipher = cipher

    async def put(self, tenant: str, name: str, value: str, actor: str) -> Sealed | Refused:
        """A new secret, or a new version of one: attempts that are sent from now on get it."""
        data = value.encode()
        if not data or len(data) > VALUE_BYTES_MAX or "\0" in value:
            return Refused(
                why=f"a value is 1 to {VALUE_BYTES_MAX} bytes of text without NUL, as every environment asks",
                fix="encode what is no text, for example with base64; pass what is larger as an input",
            )
        while True:
            known = await self._store.sealed(tenant)
            versions = [one.version for one in known if one.name == name]
            if not versions and len({one.name for one in known}) >= SECRETS_MAX:
                return Refused(why=f"there are {SECRETS_MAX} secrets already", fix="remove one: placet secret rm NAME")
            fresh = Sealed(
                tenant=tenant,
                name=name,
                version=max(versions, default=0) + 1,
                key_id="",
                wrapped="",
                body="",
                created_ms=self._clock.now_ms(),
                created_by=actor,
            )
            try:
                sealed = self._cipher.seal(fresh, data)
            except NoKey as error:
                return Refused(why=str(error), fix="set secrets.key_file or secrets.key on the server")
            if await passing(Point.SECRET, self._store.put_sealed(sealed, keep_from=fresh.version - VERSIONS_KEPT + 1)):
                return sealed

    async def listed(self, tenant: str) -> Sequence[Sealed]:
        """The newest version of each, by name."""
        newest = {one.name: one for one in sorted(await self._store.sealed(tenant), key=lambda one: one.version)}
        return [newest[name] for name in sorted(newest)]

    async def remove(self, tenant: str, name: str) -> bool:
        """Forget all its versions; ``False`` when there is none. What runs keeps what it was given."""
        return await passing(Point.SECRET, self._store.drop_sealed(tenant, name))

    async def missing(self, tenant: str, spec: Spec) -> tuple[Problem, ...]:
        """Secrets that the spec names and the tenant does not have."""
        asked = [*((f"secrets.{variable}", name) for variable, name in spec.secrets)]
        if spec.runtime.registry_secret is not None:
            asked.append(("runtime.registry_secret", spec.runtime.registry_secret))
        if not asked:
            return ()
        known = {one.name for one in await self._store.sealed(tenant)}
        return tuple(_missing(field, name) for field, name in asked if name not in known)

    async def resolved(self, tenant: str, names: Iterable[str]) -> Mapping[str, str]:
        """The values of these, as they are now. Raises ``Unresolved``."""
        wanted = set(names)
        if not wanted:
            return {}
        found = {one.name: one for one in await self.listed(tenant)}
        values: dict[str, str] = {}
        for name in sorted(wanted):
            if name not in found:
                raise Unresolved(f"there is no secret {name!r} any more: placet secret set {name}", passing=False)
            try:
                values[name] = self._cipher.open(found[name]).decode()
            except (CannotOpen, NoKey) as error:
                raise Unresolved(str(error), passing=True) from error
        return values

    async def rewrap(self) -> int:
        """Bring what is sealed under a former key under the current one; how many. What cannot be opened stays."""
        if not await self._store.sealed_keys():
            return 0
        current, count = self._cipher.key_id, 0
        after: tuple[str, str, int] = ("", "", 0)
        while page := await self._store.sealed_under_others(current, after=after, limit=REWRAP_PAGE):
            for one in page:
                after = (one.tenant, one.name, one.version)
                try:
                    changed = self._cipher.rewrap(one)
                except CannotOpen:
                    continue
                count += await passing(Point.SECRET, self._store.change_sealed(changed, one.key_id))
        return count


def _missing(field: str, name: str) -> Problem:
    return Problem(
        code="secret_missing",
        field=field,
        what=f"there is no secret {name!r}",
        why="the value is looked up by its name when an attempt is sent, and there is none of that name here",
        fix=f"make it: `placet secret set {name}`, or name one that `placet secret ls` shows",
    )
