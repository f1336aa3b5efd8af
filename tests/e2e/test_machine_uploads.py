"""A machine sends its outputs to the object store itself: nothing passes through the server, nothing is sent twice.

The stores are real, the server is real, and the machine's side is the runner's own module.
"""

import hashlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.artifacts.objects import ObjectArtifacts
from placet.adapters.objects.parts import S3PartUploads
from placet.adapters.objects.places import Access, Place
from placet.adapters.store import make_store
from placet.engine.uploading import Passes
from placet.runner import upload
from placet.testing.conformance.artifacts import content
from tests.support.object_stores import ObjectStore
from tests.support.served import BASE, Served, served
from tests.support.waiting import wait_until

MIB = 1024 * 1024
SIZES = {"at_once_bytes": 5 * MIB, "part_bytes": 5 * MIB}


@dataclass
class Machine:
    """A running attempt and how it speaks to the server."""

    server: Served
    place: Place
    access: Access
    workload_id: str
    key: str
    received_bytes: int = 0

    def call(self, verb: str, document: Any) -> Any:
        """What the runner's own call does, over the server's socket."""
        with self.server.client(self.key) as http:
            reply = http.post(f"/runner/v1/{verb}", json=document)
        self.received_bytes += len(reply.request.content)
        if reply.status_code == 503:
            raise OSError(reply.text)
        if reply.status_code != 200:
            raise upload.Failed(f"{reply.status_code}: {reply.json()['detail']}")
        return reply.json()

    def location(self, path: str) -> str:
        return f"local/{self.workload_id}/1/{path}"

    async def kept(self, path: str) -> bytes:
        return await content(ObjectArtifacts(self.place, self.access), self.location(path))


async def pass_for(server: Served, workload_id: str, epoch: int = 1, for_s: int = 600) -> str:
    """A pass, made beside the server from its own database."""
    store = make_store(f"sqlite:///{server.data / 'placet.db'}")
    await store.open()
    made = await Passes(store, SystemClock()).issue(workload_id, epoch, for_s)
    await store.close()
    return made


@pytest.fixture(params=["signing_store", "creating_store"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    found: ObjectStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def machine(store: ObjectStore, tmp_path: Path) -> "Iterator[Machine]":
    """An attempt that runs for as long as the test."""
    place = store.bucket(f"machine-{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}")
    objects = {"endpoint": store.endpoint, "region": "us-east-1"}
    with served(tmp_path / "data", artifacts_url=str(place), objects=objects) as server:
        workload_id = server.submit("sleep", "60")
        wait_until(lambda: server.http.get(f"{BASE}/{workload_id}").json()["attempts"], 30, "an attempt")
        yield Machine(server, place, store.access, workload_id, await pass_for(server, workload_id))
        server.http.post(f"{BASE}/{workload_id}/cancel")
        server.wait(workload_id)


def made(folder: Path, **sizes: int) -> list[dict[str, str]]:
    """Files of these sizes, none like another."""
    files = []
    for name, size in sizes.items():
        path = folder / name
        path.write_bytes(hashlib.sha256(name.encode()).digest() * (size // 32) + b"x" * (size % 32))
        files.append({"name": "all", "path": f"some/{name} ü.bin", "file": str(path)})
    return files


def bytes_of(file: dict[str, str]) -> bytes:
    return Path(file["file"]).read_bytes()


def pump(source: socket.socket, sink: socket.socket, most: int | None, spoil: bytes) -> None:
    """So many bytes one way, then both ends are closed; with ``spoil`` that text arrives backwards."""
    passed = 0
    with suppress(OSError):
        while data := source.recv(65536):
            if spoil and spoil in data:
                data = data.replace(spoil, bytes(reversed(spoil)))
            if most is not None and passed + len(data) > most:
                sink.sendall(data[: most - passed])
                break
            passed += len(data)
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()  # or the sender would wait for a window that never opens


@contextmanager
def cutting(endpoint: str, cut_after: Callable[[int], int | None], spoil: bytes = b"") -> Iterator[str]:
    """A way to the store that breaks off: connection number to how many bytes pass; what it breaks is closed hard.

    With ``spoil``, that text is another one when it arrives.
    """
    target = int(endpoint.rpartition(":")[2])
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    opened: list[socket.socket] = []

    def accept() -> None:
        number = 0
        while not ended.is_set():
            with suppress(OSError):
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", target))
                number += 1
                opened.extend((here, there))
                threading.Thread(target=pump, args=(here, there, cut_after(number), spoil), daemon=True).start()
                threading.Thread(target=pump, args=(there, here, None, b""), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
        for one in opened:
            one.close()


def by_way_of(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner's connections to the store take another way; the host that was signed stays."""
    real = http.client.HTTPConnection.connect

    def connect(self: http.client.HTTPConnection) -> None:
        self.host, self.port = place.split(":")[0], int(place.split(":")[1])
        real(self)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)


async def test_files_large_and_small_arrive_and_the_server_sees_none_of_them(machine: Machine, tmp_path: Path) -> None:
    files = made(tmp_path, empty=0, small=1000, large=12 * MIB + 7)
    manifest = upload.upload(files, machine.call, state=str(tmp_path / "state"), **SIZES)
    assert [one["size_bytes"] for one in manifest["files"]] == [0, 1000, 12 * MIB + 7]
    for file, listed in zip(files, manifest["files"], strict=True):
        body = bytes_of(file)
        assert await machine.kept(f"outputs/{file['path']}") == body
        assert listed["sha256"] == hashlib.sha256(body).hexdigest()
    committed = json.loads(await machine.kept("manifest.json"))
    assert [(one["path"], one["sha256"]) for one in committed["files"]] == sorted(
        (one["path"], one["sha256"]) for one in manifest["files"]
    )
    assert machine.received_bytes < 20_000
    assert "state" not in os.listdir(tmp_path)
    again = upload.upload(files, machine.call, **SIZES)  # after a lost answer, say
    assert again == manifest
    with pytest.raises(upload.Failed, match="another list"):
        upload.upload(files[:2], machine.call, **SIZES)
    assert json.loads(await machine.kept("manifest.json")) == committed


async def test_what_was_cut_anywhere_is_sent_again_and_only_that(
    machine: Machine, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = made(tmp_path, small=1000, large=21 * MIB)
    cuts = {1: 300, 2: 700_001, 3: 5 * MIB + 4000, 4: 1}
    pauses: list[float] = []
    with cutting(store.endpoint, cuts.get) as way:
        by_way_of(way, monkeypatch)
        upload.upload(files, machine.call, threads=store.at_once, pause=pauses.append, **SIZES)
    monkeypatch.undo()
    assert pauses
    for file in files:
        assert await machine.kept(f"outputs/{file['path']}") == bytes_of(file)


async def test_bytes_changed_on_the_way_never_become_an_output(
    machine: Machine, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = made(tmp_path, large=11 * MIB)
    with open(files[0]["file"], "r+b") as file:  # noqa: ASYNC230 - a test has the loop for itself
        file.seek(6 * MIB)
        file.write(b"THE-TRUE-WORDS")
    with cutting(store.endpoint, lambda _: None, spoil=b"THE-TRUE-WORDS") as way:
        by_way_of(way, monkeypatch)
        with pytest.raises(upload.Failed, match="does not take"):
            upload.upload(files, machine.call, threads=1, pause=lambda _: None, **SIZES)
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        await machine.kept("manifest.json")
    with pytest.raises(FileNotFoundError):
        await machine.kept(f"outputs/{files[0]['path']}")
    upload.upload(files, machine.call, **SIZES)
    assert await machine.kept(f"outputs/{files[0]['path']}") == bytes_of(files[0])


async def test_a_killed_machine_goes_on_with_the_parts_that_are_missing(
    creating_store: ObjectStore, tmp_path: Path
) -> None:
    """By its file of state: the parts that arrived before the kill are not sent again."""
    place = creating_store.bucket("killed-machine")
    objects = {"endpoint": creating_store.endpoint, "region": "us-east-1"}
    files = made(tmp_path, large=31 * MIB)
    state = tmp_path / "state"
    with served(tmp_path / "data", artifacts_url=str(place), objects=objects) as server:
        workload_id = server.submit("sleep", "60")
        wait_until(lambda: server.http.get(f"{BASE}/{workload_id}").json()["attempts"], 30, "an attempt")
        machine = Machine(server, place, creating_store.access, workload_id, await pass_for(server, workload_id))
        parts = S3PartUploads(place, creating_store.access)
        killed = _Killed(machine, after=3)
        with pytest.raises(KeyboardInterrupt):
            upload.upload(files, killed.call, state=str(state), threads=1, **SIZES)
        upload_id = json.loads(state.read_text())[files[0]["path"]]
        location = machine.location(f"outputs/{files[0]['path']}")
        before = await parts.stored_parts(location, upload_id)
        assert before is not None
        asked = _Asked(machine)
        upload.upload(files, asked.call, state=str(state), threads=1, **SIZES)
        assert asked.linked == sorted(set(range(1, 8)) - set(before))
        assert await machine.kept(f"outputs/{files[0]['path']}") == bytes_of(files[0])
        server.http.post(f"{BASE}/{workload_id}/cancel")
        server.wait(workload_id)


class _Asked:
    """Notes for which parts addresses were given."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.linked: list[int] = []

    def call(self, verb: str, document: Any) -> Any:
        answer = self._machine.call(verb, document)
        if verb == "uploads":
            self.linked += [link["number"] for file in answer["files"] for link in file["links"]]
        return answer


class _Killed:
    """Gives addresses for some parts only, and dies when it is asked to complete: the rest was never sent."""

    def __init__(self, machine: Machine, after: int) -> None:
        self._machine = machine
        self._after = after

    def call(self, verb: str, document: Any) -> Any:
        if verb == "complete":
            raise KeyboardInterrupt
        answer = self._machine.call(verb, document)
        for file in answer["files"]:
            file["links"] = file["links"][: self._after]
        return answer


@pytest.mark.parametrize("store", ["signing_store"], indirect=True)
async def test_a_pass_is_for_one_attempt_its_own_place_and_while_it_lasts(machine: Machine) -> None:
    part = {"number": 1, "size_bytes": 1, "sha256": "0" * 64}
    for path in ("../x", "a/../../x", "/x", "a//b", "a\nb", "x" * 600, "e\u0301"):
        asked = {"name": "a", "path": path, "size_bytes": 1, "sha256": "0" * 64, "parts": [part]}
        with pytest.raises(upload.Failed, match=r"40[09]"):
            machine.call("uploads", {"files": [asked]})
    file = {"name": "a", "path": "a", "size_bytes": 0, "sha256": "0" * 64}
    good, workload_id, server = machine.key, machine.workload_id, machine.server
    wrong = [
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        good.replace("_1_", "_2_", 1),
        await pass_for(server, workload_id, for_s=-1),
        server.token,
        "",
    ]
    for key in wrong:
        with server.client(key or None) as http:
            assert http.post("/runner/v1/manifest", json={"files": [file]}).status_code == 401
    for key in (await pass_for(server, workload_id, epoch=2), await pass_for(server, "wl_" + "0" * 29)):
        with server.client(key) as http:
            assert http.post("/runner/v1/manifest", json={"files": [file]}).status_code == 409
    with server.client(good) as http:
        assert http.get(f"{BASE}/{workload_id}").status_code == 401
        assert http.post("/runner/v1/manifest", content=b"{").status_code == 400
    server.http.post(f"{BASE}/{workload_id}/cancel")
    server.wait(workload_id)
    with pytest.raises(upload.Failed, match="over"):
        machine.call("manifest", {"files": []})
