"""The part of the Store port that secrets need, over any of the engines. It sees only what is sealed."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from placet.adapters.store.codec import Row, number, text
from placet.adapters.store.link import Link
from placet.adapters.store.readers import Readers
from placet.adapters.store.sql import Params
from placet.domain.vault import Sealed

T = TypeVar("T")


class _Rows(Protocol):
    """What a store has for its parts."""

    _readers: Readers

    def _do(self, act: Callable[[Link], tuple[T, Iterable[str]]], *, flush: bool = False) -> Awaitable[T]: ...


class VaultRows:
    """Sealed secrets."""

    async def put_sealed(self: _Rows, sealed: Sealed, *, keep_from: int) -> bool:
        def act(link: Link) -> tuple[bool, tuple[str, ...]]:
            if link.run(link.sql.sealed_put, **_columns(sealed)) == 0:
                return False, ()
            link.run(link.sql.sealed_forget, tenant=sealed.tenant, name=sealed.name, keep_from=keep_from)
            return True, ()

        return await self._do(act, flush=True)

    async def change_sealed(self: _Rows, sealed: Sealed, former_key_id: str) -> bool:
        columns = {
            "of_tenant": sealed.tenant,
            "of_name": sealed.name,
            "of_version": sealed.version,
            "of_key": former_key_id,
            "key_id": sealed.key_id,
            "wrapped": sealed.wrapped,
        }
        return await self._do(lambda link: (link.run(link.sql.sealed_change, **columns) > 0, ()), flush=True)

    async def drop_sealed(self: _Rows, tenant: str, name: str) -> bool:
        return await self._do(
            lambda link: (link.run(link.sql.sealed_drop, tenant=tenant, name=name) > 0, ()), flush=True
        )

    async def sealed(self: _Rows, tenant: str) -> Sequence[Sealed]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.sealed_of, tenant=tenant))
        return [_from(row) for row in rows]

    async def sealed_keys(self: _Rows) -> frozenset[str]:
        rows = await self._readers.read(lambda link: link.rows(link.sql.sealed_keys))
        return frozenset(text(row[0]) for row in rows)

    async def sealed_under_others(
        self: _Rows, key_id: str, *, after: tuple[str, str, int], limit: int
    ) -> Sequence[Sealed]:
        tenant, name, version = after
        wanted = {"key_id": key_id, "tenant": tenant, "name": name, "version": version, "limit": limit}
        rows = await self._readers.read(lambda link: link.rows(link.sql.sealed_under_others, **wanted))
        return [_from(row) for row in rows]


def _columns(sealed: Sealed) -> Params:
    return {
        "tenant": sealed.tenant,
        "name": sealed.name,
        "version": sealed.version,
        "key_id": sealed.key_id,
        "wrapped": sealed.wrapped,
        "body": sealed.body,
        "created_ms": sealed.created_ms,
        "created_by": sealed.created_by,
    }


def _from(row: Row) -> Sealed:
    (tenant, name, version, key_id, wrapped, body, created_ms, created_by) = row
    return Sealed(
        tenant=text(tenant),
        name=text(name),
        version=number(version),
        key_id=text(key_id),
        wrapped=text(wrapped),
        body=text(body),
        created_ms=number(created_ms),
        created_by=text(created_by),
    )
