"""The durable store over SQLite and PostgreSQL; the only place that knows SQL, and it knows no rules of its own."""
