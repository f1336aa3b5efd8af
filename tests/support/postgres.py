"""One throw-away PostgreSQL per test session, on a unix socket and loopback, and a fresh database per test.

The server is not a service of the machine and survives nothing: it runs with fsync off in a temporary folder.
"""

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support.missing import missing

START_TIMEOUT_S = 30
UNPRIVILEGED = ("postgres", "nobody")
FAST_AND_FORGETFUL = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "log_min_messages": "warning",
}

_names = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A running server; the databases in it are named after nothing but a counter."""

    port: int
    socket_dir: Path

    def url(self, database: str) -> str:
        """The address for SQLAlchemy with psycopg 3."""
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, template: str = "template0") -> str:
        """A new database's name; with a template it is a quick copy, and nobody may be connected to that."""
        name = f"t{os.getpid()}_{next(_names)}"
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop_database(self, name: str) -> None:
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(
            host=str(self.socket_dir), port=self.port, user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement)


class Restartable:
    """A server of this test's own, which it may stop and start."""

    def __init__(self, programs: Path, server: PostgresServer) -> None:
        self.server = server
        self._pg_ctl = [str(programs / "pg_ctl"), "-D", str(server.socket_dir / "data"), "-w"]

    def stop(self) -> None:
        run_as(unprivileged_account(), self.server.socket_dir, [*self._pg_ctl, "-m", "immediate", "stop"])

    def start(self) -> None:
        folder = self.server.socket_dir
        options = (folder / "data" / "postmaster.opts").read_text().split(" ", 1)[1].replace('"', "").strip()
        run_as(unprivileged_account(), folder, [*self._pg_ctl, "-l", str(folder / "log"), "-o", options, "start"])


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's server; skipped with the reason where there is none, failed where CI=true."""
    programs = find_programs()
    if programs is None:
        missing("no PostgreSQL server program (initdb, pg_ctl) on this machine; scripts/system-packages installs it")
    else:
        with running_server(programs) as server:
            yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a fresh, empty database of this test's own."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def restartable() -> Iterator[Restartable]:
    """A server that keeps what it acknowledged, for tests that take it away for a while."""
    programs = find_programs()
    if programs is None:
        missing("no PostgreSQL server program on this machine")
        return
    with running_server(programs, {"synchronous_commit": "on"}) as server:
        yield Restartable(programs, server)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> Callable[[str, Callable[[str], None]], str]:
    """Prepares a database once per key by calling prepare(url); returns its name, for create_database(template)."""
    prepared: dict[str, str] = {}

    def template(key: str, prepare: Callable[[str], None]) -> str:
        if key not in prepared:
            name = postgres_server.create_database()
            prepare(postgres_server.url(name))
            prepared[key] = name
        return prepared[key]

    return template


def find_programs() -> Path | None:
    """The folder with initdb and pg_ctl, the newest version first."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    candidates = versions + ([Path(on_path).resolve().parent] if on_path else [])
    return next((folder for folder in candidates if (folder / "initdb").exists()), None)


@contextmanager
def running_server(programs: Path, settings: dict[str, str] | None = None) -> Iterator[PostgresServer]:
    """A server with the given settings on top of the fast and forgetful ones; stopped and deleted at the end."""
    # Not pytest's tmp_path: its 0700 parents keep out the unprivileged user, and a socket path has a length limit.
    folder = Path(tempfile.mkdtemp(prefix="placet-pg-"))
    account = unprivileged_account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    port = free_port()
    data = folder / "data"
    options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder)}
    options |= FAST_AND_FORGETFUL | (settings or {})
    flags = " ".join(f"-c {name}={value}" for name, value in options.items())
    pg_ctl = [str(programs / "pg_ctl"), "-D", str(data)]
    try:
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", "postgres"]
        run_as(account, folder, [*initdb, "--auth=trust", "-E", "UTF8", "--no-sync", "--locale=C.UTF-8"])
        start = ["-w", "-t", str(START_TIMEOUT_S), "-l", str(folder / "log"), "-o", f"-p {port} {flags}", "start"]
        run_as(account, folder, [*pg_ctl, *start])
        try:
            yield PostgresServer(port=port, socket_dir=folder)
        finally:
            run_as(account, folder, [*pg_ctl, "-m", "immediate", "-w", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unprivileged_account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: whom to run it as then, else None."""
    if os.getuid() != 0:
        return None
    for name in UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise LookupError(f"running as root and none of the accounts {UNPRIVILEGED} exists")


def run_as(account: pwd.struct_passwd | None, folder: Path, command: Sequence[str]) -> None:
    """Runs a server program to its end and shows what it said when it fails."""
    environment = {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    identity: dict[str, object] = {}
    if account is not None:
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    # Not a pipe: the server would inherit it and this call would wait for the server's end.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=said,
            stdin=subprocess.DEVNULL,
            check=False,
            **identity,
        )
        said.seek(0)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed:\n{said.read().decode(errors='replace')}")


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
