"""How Alembic runs here: on the connection it is given, inside the transaction that is open on it."""

from alembic import context

from placet.adapters.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
