"""The statements about sealed secrets."""

from functools import cached_property

from sqlalchemy import Text, and_, bindparam, delete, or_, select, update

from placet.adapters.store.statement import Compiler, Statement
from placet.adapters.store.tables import vault


class VaultStatements(Compiler):
    """All of them for one engine."""

    @cached_property
    def sealed_put(self) -> Statement:
        """Row count 0 means that somebody else has made that version."""
        return self._insert_new(vault)

    @cached_property
    def sealed_of(self) -> Statement:
        v = vault.c
        return self._compiled(select(vault).where(v.tenant == bindparam("tenant")).order_by(v.name, v.version))

    @cached_property
    def sealed_keys(self) -> Statement:
        return self._compiled(select(vault.c.key_id).distinct())

    @cached_property
    def sealed_forget(self) -> Statement:
        """Versions before one."""
        v = vault.c
        same = and_(v.tenant == bindparam("tenant"), v.name == bindparam("name"))
        return self._compiled(delete(vault).where(same, v.version < bindparam("keep_from")))

    @cached_property
    def sealed_drop(self) -> Statement:
        v = vault.c
        return self._compiled(delete(vault).where(v.tenant == bindparam("tenant"), v.name == bindparam("name")))

    @cached_property
    def sealed_change(self) -> Statement:
        v = vault.c
        same = and_(
            v.tenant == bindparam("of_tenant"), v.name == bindparam("of_name"), v.version == bindparam("of_version")
        )
        changed = update(vault).where(same, v.key_id == bindparam("of_key"))
        values = {"key_id": bindparam("key_id", type_=Text()), "wrapped": bindparam("wrapped", type_=Text())}
        return self._compiled(changed.values(values))

    @cached_property
    def sealed_under_others(self) -> Statement:
        v = vault.c
        after = or_(
            v.tenant > bindparam("tenant"),
            and_(v.tenant == bindparam("tenant"), v.name > bindparam("name")),
            and_(v.tenant == bindparam("tenant"), v.name == bindparam("name"), v.version > bindparam("version")),
        )
        found = select(vault).where(v.key_id != bindparam("key_id"), after)
        return self._compiled(found.order_by(v.tenant, v.name, v.version).limit(bindparam("limit")))
