"""Suites that an adapter passes before it is done; each is a class to inherit from, with a bench of its own."""
