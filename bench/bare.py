"""The floor of the HTTP doors: uvicorn, three routes in plain ASGI, one SQLite table; nothing is checked or mapped.

`main` serves it in a process of its own, with the arguments FOLDER and ROWS, on FOLDER/server.sock.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import uvicorn

from bench.floors import SPEC, SqliteLedger

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]
Receive = Callable[[], Awaitable[Scope]]
PAGE = 100
HEADERS = [(b"content-type", b"application/json")]


class Bare:
    """`POST /` commits a row, `GET /N` reads one, `GET /list` reads the newest hundred."""

    def __init__(self, path: Path, rows: int) -> None:
        self._ledger = SqliteLedger(path)
        self._reader = sqlite3.connect(path)
        with self._reader as connection:
            numbered = ((number, SPEC) for number in range(rows))
            connection.executemany("INSERT INTO workload VALUES (?, ?, 'accepted')", numbered)
        self._next = rows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        content = await self._post(receive) if scope["method"] == "POST" else self._get(scope["path"])
        headers = [*HEADERS, (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _post(self, receive: Receive) -> bytes:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        json.loads(body)
        self._next += 1
        self._ledger.accept(self._next)
        return b'{"id":%d}' % self._next

    def _get(self, path: str) -> bytes:
        if path == "/list":
            statement = "SELECT id, state FROM workload ORDER BY id DESC LIMIT ?"
            rows = self._reader.execute(statement, (PAGE,)).fetchall()
            return json.dumps([{"id": number, "state": state} for number, state in rows]).encode()
        statement = "SELECT id, spec, state FROM workload WHERE id = ?"
        number, spec, state = self._reader.execute(statement, (int(path[1:]),)).fetchone()
        return json.dumps({"id": number, "state": state, "spec": spec}).encode()


def main() -> None:
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    os.chdir(folder)
    app = Bare(folder / "ledger.db", rows)
    uvicorn.run(app, uds=str(folder / "server.sock"), log_level="warning", access_log=False, lifespan="off")
