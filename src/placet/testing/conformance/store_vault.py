"""What every store must do for sealed secrets."""

import asyncio
from dataclasses import replace

from placet.domain.vault import Sealed
from placet.ports.store import Store
from placet.testing.conformance.store_values import TENANT

ONE = Sealed(
    tenant=TENANT, name="hub", version=1, key_id="k1", wrapped="w1", body="b1", created_ms=1, created_by="t"
)  # fmt: skip


class VaultContract:
    """Part of ``StoreContract``."""

    async def test_secrets_belong_to_a_tenant(self, store: Store) -> None:
        other = replace(ONE, tenant="other", body="theirs")
        for secret in (ONE, other):
            assert await store.put_sealed(secret, keep_from=1)
        assert list(await store.sealed(TENANT)) == [ONE]
        assert list(await store.sealed("other")) == [other]
        assert not await store.drop_sealed("third", ONE.name)
        assert await store.drop_sealed(TENANT, ONE.name)
        assert not await store.drop_sealed(TENANT, ONE.name)
        assert list(await store.sealed(TENANT)) == []
        assert list(await store.sealed("other")) == [other]

    async def test_a_version_is_made_once_and_old_ones_are_forgotten(self, store: Store) -> None:
        assert await store.put_sealed(ONE, keep_from=1)
        both = await asyncio.gather(
            *(store.put_sealed(replace(ONE, version=2, body=body), keep_from=1) for body in ("x", "y"))
        )
        assert sorted(both) == [False, True]
        assert [one.version for one in await store.sealed(TENANT)] == [1, 2]
        another = replace(ONE, name="another")
        assert await store.put_sealed(another, keep_from=1)
        third = replace(ONE, version=3)
        assert await store.put_sealed(third, keep_from=3)
        assert not await store.put_sealed(third, keep_from=9)
        assert list(await store.sealed(TENANT)) == [another, third]

    async def test_a_key_is_changed_once(self, store: Store) -> None:
        rows = [replace(ONE, name=name, version=version) for name in ("a", "b") for version in (1, 2)]
        for one in rows:
            assert await store.put_sealed(one, keep_from=1)
        assert await store.sealed_keys() == {"k1"}
        start = ("", "", 0)
        assert list(await store.sealed_under_others("k1", after=start, limit=9)) == []
        assert list(await store.sealed_under_others("k2", after=start, limit=3)) == rows[:3]
        assert list(await store.sealed_under_others("k2", after=(TENANT, "a", 1), limit=9)) == rows[1:]
        changed = replace(rows[0], key_id="k2", wrapped="w2")
        assert await store.change_sealed(changed, "k1")
        assert not await store.change_sealed(replace(changed, wrapped="w3"), "k1")
        assert list(await store.sealed(TENANT)) == [changed, *rows[1:]]
        assert await store.sealed_keys() == {"k1", "k2"}
        assert list(await store.sealed_under_others("k2", after=start, limit=9)) == rows[1:]
