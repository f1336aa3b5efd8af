"""Sends files straight to an object store through signed addresses, in parts, resumed wherever it was cut.

Standard library only, Python 3.8 or newer. The control plane is asked for addresses and told what was sent; no byte of
a file passes through it. ``upload`` is all that others call.

Every part is announced with its SHA-256 (and MD5, for stores that check only that) before it is sent, and its address
is good for those bytes alone: what was changed on the way is refused by the store or, at the latest, before the list
of outputs is committed.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Sequence

    Json = Dict[str, Any]
    Call = Callable[[str, Json], Json]

# A file up to this size is one request; a larger one goes in parts, at most 9,000 of them.
AT_ONCE_BYTES = 16 * 1024 * 1024
PART_BYTES = 16 * 1024 * 1024
PARTS_MAX = 9000
BLOCK_BYTES = 1024 * 1024
# So many files, and so many parts of one file, are asked for at a time: addresses live for minutes.
FILES_AT_A_TIME = 50
PARTS_AT_A_TIME = 50
TRIES_MAX = 8
TRIES_AT_ONCE_MAX = 4
PAUSE_S = 0.2
PAUSE_MOST_S = 20.0
SILENCE_S = 60.0
# What the store says of addresses that are too old, or of bytes that are not those announced, helps to begin anew.
RETRIED = (400, 403, 404, 408, 409, 412, 425, 429, 500, 502, 503, 504)


class Failed(Exception):
    """The upload did not succeed and trying again here will not help; the message says why."""


class Changed(Failed):
    """A file is not what it was when it was announced."""


class Part:
    """A stretch of a file, and the digests that its address is bound to."""

    __slots__ = ("md5", "number", "offset", "sha256", "size_bytes")

    def __init__(self, number: int, offset: int, size_bytes: int, sha256: str, md5: str) -> None:
        self.number = number
        self.offset = offset
        self.size_bytes = size_bytes
        self.sha256 = sha256
        self.md5 = md5

    def document(self) -> Json:
        """As the control plane is told of it."""
        return {"number": self.number, "size_bytes": self.size_bytes, "sha256": self.sha256, "md5": self.md5}


class Measured:
    """A file with its size and digests, read once."""

    def __init__(self, name: str, path: str, file: str, at_once_bytes: int, part_bytes: int) -> None:
        self.name = name
        self.path = path
        self.file = file
        self.parts: list[Part] = []
        whole = hashlib.sha256()
        self.size_bytes = os.stat(file).st_size
        single = self.size_bytes <= at_once_bytes
        length = self.size_bytes if single else max(part_bytes, -(-self.size_bytes // PARTS_MAX))
        with open(file, "rb") as source:
            offset = 0
            while offset < self.size_bytes or not self.parts:
                part, read = hashlib.sha256(), 0
                weak = _md5()
                while read < length:
                    block = source.read(min(BLOCK_BYTES, length - read))
                    if not block:
                        break
                    if not single:
                        whole.update(block)
                    part.update(block)
                    if weak is not None:
                        weak.update(block)
                    read += len(block)
                if read == 0 and self.parts:
                    raise Changed(path + " became shorter while it was read")
                sha256 = part.hexdigest()
                self.parts.append(
                    Part(len(self.parts) + 1, offset, read, sha256, weak.hexdigest() if weak is not None else "")
                )
                offset += read
        if offset != self.size_bytes:
            raise Changed(path + " changed while it was read")
        self.sha256 = self.parts[0].sha256 if single else whole.hexdigest()
        self.single = single

    def document(self) -> Json:
        """As it stands in the list of outputs."""
        return {
            "name": self.name,
            "path": self.path,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
            "etag": self.etag(),
            "parts_sha256": "" if self.single else _joined("sha256", [part.sha256 for part in self.parts]),
        }

    def etag(self) -> str:
        """What most stores call the content, from which a change can be seen; empty where MD5 is not to be had."""
        if not all(part.md5 for part in self.parts):
            return ""
        if self.single:
            return self.parts[0].md5
        return _joined("md5", [part.md5 for part in self.parts])


def upload(
    files: Iterable[Json],
    call: Call,
    *,
    state: str | None = None,
    threads: int = 4,
    pause: Callable[[float], None] = time.sleep,
    at_once_bytes: int = AT_ONCE_BYTES,
    part_bytes: int = PART_BYTES,
) -> Json:
    """Send all files, then commit the list of them; returns that list.

    ``files``: documents with ``name`` (of the declared output), ``path`` (of the artifact) and ``file`` (here).
    ``call(verb, document)``: asks the control plane, by ``POST <url>/runner/v1/<verb>`` with the attempt's pass; it
    returns the reply's document, and raises ``OSError`` where nothing is known of what became of it (it is asked
    again), ``Failed`` where it was refused. ``state``: a file in which uploads that were begun are remembered, so that
    a new process goes on where this one was killed. It blocks; ``threads`` bounds what goes on at once.

    Raises ``Failed`` when it cannot be done, ``Changed`` when a file changed meanwhile, ``OSError`` for a file that
    cannot be read.
    """
    sending = _Sending(call, _State(state), pause, at_once_bytes, part_bytes)
    manifest: list[Json] = []
    waiting: list[Json] = list(files)
    try:
        with ThreadPoolExecutor(max_workers=threads) as pool:
            for start in range(0, len(waiting), FILES_AT_A_TIME):
                batch = list(pool.map(sending.measure, waiting[start : start + FILES_AT_A_TIME]))
                sending.send_small([one for one in batch if one.single], pool)
                for one in batch:
                    if not one.single:
                        sending.send_large(one, pool)
                manifest.extend(one.document() for one in batch)
    finally:
        sending.close()
    document = {"files": manifest}
    sending.ask("manifest", document)
    sending.state.forget()
    return document


class _State:
    """Uploads in parts that were begun: path to id, on the disk before the first byte of a part is sent."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._begun: dict[str, str] = {}
        self.resumed = False
        if path is not None and os.path.exists(path):
            try:
                with open(path, encoding="utf-8") as file:
                    found = json.load(file)
                self._begun = {str(key): str(value) for key, value in found.items()}
                self.resumed = True
            except (OSError, ValueError, AttributeError):
                self._begun = {}
        elif path is not None:
            self._write()

    def of(self, path: str) -> str | None:
        return self._begun.get(path)

    def note(self, path: str, upload_id: str) -> None:
        if self._begun.get(path) != upload_id:
            self._begun[path] = upload_id
            self._write()

    def forget(self) -> None:
        if self._path is not None and os.path.exists(self._path):
            os.unlink(self._path)

    def _write(self) -> None:
        if self._path is None:
            return
        draft = self._path + ".new"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(self._begun, file)
        os.replace(draft, self._path)


class _Sending:
    """What one call of ``upload`` works with."""

    def __init__(
        self, call: Call, state: _State, pause: Callable[[float], None], at_once_bytes: int, part_bytes: int
    ) -> None:
        self._call = call
        self.state = state
        self._pause = pause
        self._sizes = (at_once_bytes, part_bytes)
        self._connections = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def measure(self, file: Json) -> Measured:
        return Measured(file["name"], file["path"], file["file"], *self._sizes)

    def ask(self, verb: str, document: Json) -> Json:
        """The control plane's answer, however often it has to be asked."""
        for tries in range(1, TRIES_MAX + 1):
            try:
                return self._call(verb, document)
            except OSError as error:
                if tries == TRIES_MAX:
                    raise Failed("the control plane cannot be reached: " + type(error).__name__) from None
                self._wait(tries)
        raise AssertionError("unreachable")

    def send_small(self, files: Sequence[Measured], pool: ThreadPoolExecutor) -> None:
        """Files of one request each. What the store refused is asked for anew, with fresh addresses."""
        left = list(files)
        check = self.state.resumed
        for tries in range(1, TRIES_MAX + 1):
            if not left:
                return
            wanted = [{**one.document(), "parts": [one.parts[0].document()], "check": check} for one in left]
            answers = {one["path"]: one for one in self.ask("uploads", {"files": wanted})["files"]}
            todo = [one for one in left if not answers[one.path].get("stored")]
            sent = pool.map(
                self._put, todo, [one.parts[0] for one in todo], [_first(answers[one.path]) for one in todo]
            )
            left = [one for one, well in zip(todo, list(sent)) if not well]
            check = True  # an answer that was lost may have been a yes
            if left:
                self._wait(tries)
        if left:
            raise Failed("the object store does not take " + left[0].path)

    def send_large(self, file: Measured, pool: ThreadPoolExecutor) -> None:
        """A file in parts: those that the store has are not sent again."""
        upload_id = self.state.of(file.path)
        known: set[int] = set()
        for tries in range(1, TRIES_MAX + 1):
            failures = 0
            for start in range(0, len(file.parts), PARTS_AT_A_TIME):
                window = [one for one in file.parts[start : start + PARTS_AT_A_TIME] if one.number not in known]
                if not window:
                    continue
                asked = {
                    **file.document(),
                    "upload_id": upload_id,
                    "parts": [one.document() for one in window],
                    "check": upload_id is not None,
                }
                answer = self.ask("uploads", {"files": [asked]})["files"][0]
                if answer.get("stored"):
                    return
                if answer["upload_id"] != upload_id:
                    # A new one: it has none of the parts that an earlier one had.
                    if upload_id is not None and known:
                        known.clear()
                        failures += 1
                    upload_id = answer["upload_id"]
                    self.state.note(file.path, answer["upload_id"])
                links = {one["number"]: one for one in answer["links"]}
                todo = [one for one in window if one.number in links]
                sent = list(pool.map(self._put, [file] * len(todo), todo, [links[one.number] for one in todo]))
                lost = {one.number for one, well in zip(todo, sent) if not well}
                failures += len(lost)
                known.update(one.number for one in window if one.number not in lost)
            if not failures and self._complete(file, upload_id or ""):
                return
            known.clear()  # the store says what it has
            self._wait(tries)
        raise Failed("the object store does not take " + file.path)

    def _complete(self, file: Measured, upload_id: str) -> bool:
        document = {**file.document(), "upload_id": upload_id, "parts": [one.document() for one in file.parts]}
        return bool(self.ask("complete", document).get("stored"))

    def _put(self, file: Measured, part: Part, link: Json) -> bool:
        """One part. True if the store has taken the bytes; false where it may be tried with a fresh address.

        What broke off is tried again at once, by the same address: some stores take parts in their order only, and let
        the later ones wait for this one.
        """
        split = urlsplit(link["url"])
        for tries in range(1, TRIES_AT_ONCE_MAX + 1):
            try:
                with open(file.file, "rb") as source:
                    status = self._send(split.scheme, split.netloc, split.path + "?" + split.query, link, source, part)
            except (OSError, http.client.HTTPException):
                self._drop()
                status = 0
            if 200 <= status < 300:
                return True
            if status and status not in RETRIED:
                raise Failed(f"the object store answered with status {status} for {file.path}")
            if status and status < 500 and status not in (408, 425, 429):
                return False
            self._wait(tries)
        return False

    def _send(self, scheme: str, netloc: str, target: str, link: Json, source: Any, part: Part) -> int:
        connection = self._connection(scheme, netloc)
        source.seek(part.offset)
        connection.putrequest("PUT", target, skip_accept_encoding=True)
        connection.putheader("Content-Length", str(part.size_bytes))
        for name, value in link["headers"].items():
            connection.putheader(name, value)
        connection.endheaders()
        left = part.size_bytes
        try:
            while left:
                block = source.read(min(BLOCK_BYTES, left))
                if not block:
                    raise Changed("a file became shorter while it was sent")
                connection.send(block)
                left -= len(block)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the answer may be there: a store that refuses does not wait for all of it
        reply = connection.getresponse()
        reply.read()
        if left or reply.will_close:
            self._drop()
        return reply.status

    def _connection(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        """One for each thread and store, kept open from part to part."""
        kept = getattr(self._connections, "kept", None)
        if kept is not None and kept[0] == (scheme, netloc):
            connection: http.client.HTTPConnection = kept[1]
            return connection
        self._drop()
        if scheme == "https":
            connection = http.client.HTTPSConnection(netloc, timeout=SILENCE_S)
        elif scheme == "http":
            connection = http.client.HTTPConnection(netloc, timeout=SILENCE_S)
        else:
            raise Failed("the address of the object store is neither http nor https")
        self._connections.kept = ((scheme, netloc), connection)
        self._opened.append(connection)
        return connection

    def _drop(self) -> None:
        kept = getattr(self._connections, "kept", None)
        if kept is not None:
            kept[1].close()
            self._connections.kept = None

    def close(self) -> None:
        """Close what was kept open."""
        for connection in self._opened:
            connection.close()

    def _wait(self, tries: int) -> None:
        most_s = min(PAUSE_S * 2.0 ** (tries - 1), PAUSE_MOST_S)
        self._pause(most_s * (0.5 + random.random() / 2))  # noqa: S311 - spreads retries, guards nothing


def _first(answer: Json) -> Json:
    """The one address of a file that is sent in one request."""
    link: Json = answer["links"][0]
    return link


def _joined(kind: str, digests: Sequence[str]) -> str:
    """How stores name an object that was made of parts."""
    whole = _md5() if kind == "md5" else hashlib.new(kind)
    whole.update(b"".join(bytes.fromhex(digest) for digest in digests))
    return f"{whole.hexdigest()}-{len(digests)}"


def _md5() -> Any:
    """A second digest, for stores that check no other; ``None`` where this Python may not make it."""
    try:
        return hashlib.new("md5", usedforsecurity=False) if _NAMED else hashlib.new("md5")  # noqa: S324 - finds accidents
    except ValueError:
        return None


def _takes_word() -> bool:
    try:
        hashlib.new("md5", usedforsecurity=False)
    except TypeError:
        return False  # Python 3.8
    except ValueError:
        return True
    return True


_NAMED = _takes_word()
