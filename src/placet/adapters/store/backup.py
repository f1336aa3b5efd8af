"""Copies of the database in one file, whole and of one moment, while servers go on working."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from placet.adapters.store import schema

SQLITE_MAGIC = b"SQLite format 3\0"
WITHIN_S = 3600.0


class CannotCopy(Exception):
    """The copy was not made, or cannot be used; the message says why."""


def backup(url: str, target: Path) -> None:
    """Write the database to a new file, mode 0600, flushed, or leave nothing. Raises ``CannotCopy``."""
    if target.exists():
        raise CannotCopy(f"{target} exists; copies are never overwritten")
    draft = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _write(make_url(url), draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.link(draft, target)  # fails where somebody made it meanwhile
    except OSError as error:
        raise CannotCopy(f"{target} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        raise CannotCopy(str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def restore(url: str, source: Path) -> None:
    """Make the database from a copy; there must be none yet. Raises ``CannotCopy``."""
    address = make_url(url)
    if address.get_backend_name() != "sqlite" or not address.database:
        raise CannotCopy(
            "a PostgreSQL database is restored by its own tool: pg_restore --no-owner --dbname=URL FILE into an empty "
            "one; then start the server with engine.observe=true"
        )
    path = Path(address.database)
    if path.exists():
        raise CannotCopy(f"{path} exists; move it away first, or choose another data folder")
    check(source)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        shutil.copyfile(source, draft)
        draft.chmod(0o600)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.link(draft, path)
    except OSError as error:
        raise CannotCopy(str(error)) from error
    finally:
        draft.unlink(missing_ok=True)


def check(source: Path) -> str:
    """The schema's version in a copy of SQLite's, every page of it sound. Raises ``CannotCopy``."""
    if not source.is_file():  # to open a pipe could take for ever
        raise CannotCopy(f"there is no file {source}")
    try:
        with source.open("rb") as file:
            if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
                raise CannotCopy(f"{source} is no copy of a SQLite database")
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
            if verdict != "ok":
                raise CannotCopy(f"{source} is damaged: {verdict}")
            found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except (OSError, sqlite3.Error) as error:
        raise CannotCopy(f"{source} cannot be read: {error}") from error
    if found is None or found[0] > schema.HEAD:
        raise CannotCopy(f"{source} belongs to a newer Placet")
    return str(found[0])


def _write(url: URL, draft: Path) -> None:
    if url.get_backend_name() == "sqlite":
        if not url.database or not Path(url.database).exists():
            raise CannotCopy(f"there is no database at {url.database}")
        source = f"{Path(url.database).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(source, uri=True)) as here, closing(sqlite3.connect(draft)) as there:
            here.backup(there)
        return
    program = shutil.which("pg_dump")
    if program is None:
        raise CannotCopy("pg_dump is not here; it comes with PostgreSQL's client programs")
    # Everybody can read a command line: the password goes in by the environment.
    environment = dict(os.environ)
    if url.password:
        environment["PGPASSWORD"] = str(url.password)
    address = url.set(drivername="postgresql", password=None).render_as_string(hide_password=False)
    command = [program, "--format=custom", f"--file={draft}", f"--dbname={address}"]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN_S, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise CannotCopy(f"pg_dump failed: {said[-1] if said else done.returncode}")
