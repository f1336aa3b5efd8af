"""The Python client: requests and replies without I/O, driven sync or async; it never reaches into the core."""
