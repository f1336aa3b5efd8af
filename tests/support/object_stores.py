"""Real object stores on this machine: one that checks signatures, one that knows conditional writes.

Both are started once for a process of tests and asked for by ``signing_store`` and ``creating_store``.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.objects.opening import s3_client
from placet.adapters.objects.places import Access, Place
from tests.support.missing import missing
from tests.support.waiting import wait_until

KEY_ID, SECRET = "AKIDFORTESTS", "secret-for-tests"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
READY_WITHIN_S = 60


@dataclass(kw_only=True)
class ObjectStore:
    """A running S3: where, and whether it refuses a second create of one name."""

    endpoint: str
    creates_only: bool

    @property
    def at_once(self) -> int:
        """Parts that may be sent at a time: the other store takes them in order, and lets the second wait for ever
        where the first broke off."""
        return 2 if self.creates_only else 1

    @property
    def access(self) -> Access:
        return Access(endpoint=self.endpoint, region="us-east-1")

    @property
    def environment(self) -> Mapping[str, str]:
        """What a server or client of it needs in its environment."""
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL_S3": self.endpoint}

    @cached_property
    def client(self) -> Any:
        """One that was made with the right credentials; making one takes long."""
        return s3_client(self.access, public=False)

    def bucket(self, name: str) -> Place:
        """A new bucket of that name, and a prefix in it."""
        self.client.create_bucket(Bucket=name)
        return Place(scheme="s3", bucket=name, key="some/prefix")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def program(name: str) -> str:
    """A program of the environment that the tests run in."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        missing(f"{name} is not installed; scripts/setup dev installs it")
    return str(path)


@contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[None]:
    """The program, answering on that port, until the context ends."""
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as it,
    ):
        try:
            wait_until(lambda: listens(port) or it.poll() is not None, READY_WITHIN_S, f"{command[0]} on port {port}")
            assert it.poll() is None, log.read_text()
            yield
        finally:
            it.kill()
            it.wait()


def listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            return True
    except OSError:
        return False


@contextmanager
def signing(folder: Path, port: int) -> Iterator[None]:
    """`rclone serve s3` on that port; each folder in ``buckets`` is a bucket."""
    (folder / "buckets").mkdir(exist_ok=True)
    serve = [program("rclone"), "serve", "s3", "--config", "", "--addr", f"127.0.0.1:{port}"]
    command = [*serve, "--auth-key", f"{KEY_ID},{SECRET}", str(folder / "buckets")]
    with running(command, port, folder / "log"):
        yield


@contextmanager
def usual_environment() -> Iterator[None]:
    """Credentials where every client of S3 looks for them, and none of the person's own."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    for name in kept:
        del os.environ[name]
    os.environ.update(ENVIRONMENT, AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ.update(kept)


@pytest.fixture(scope="session")
def signing_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """`rclone serve s3`: wrong signatures, tampered and expired addresses are refused; it overwrites always."""
    port = free_port()
    with usual_environment(), signing(tmp_path_factory.mktemp("signing-store"), port):
        yield ObjectStore(endpoint=f"http://127.0.0.1:{port}", creates_only=False)


@pytest.fixture(scope="session")
def creating_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """`moto`: conditional writes and checksums as Amazon has them; it looks at no signature."""
    folder, port = tmp_path_factory.mktemp("creating-store"), free_port()
    command = [program("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with usual_environment(), running(command, port, folder / "log"):
        yield ObjectStore(endpoint=f"http://127.0.0.1:{port}", creates_only=True)
