"""What is here, what is missing, what that means, and how to get it. Looks; changes nothing."""

import asyncio
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

import placet
from placet.cli import supervisor
from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.options import Options
from placet.cli.output import Output, last_words
from placet.cli.settings import settings_for
from placet.sdk import places
from placet.sdk.location import answers

PYTHON_FLOOR = (3, 11)
DISK_FLOOR_BYTES = 2 * 10**9
PROBE_WITHIN_S = 5.0
SQLITE = "sqlite:///"
SQLITE_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked for. ``needed``: nothing works without it."""

    name: str
    state: str  # ok, missing, warning, off
    found: str
    means: str = ""
    fix: str = ""
    needed: bool = False


def doctor(context: typer.Context) -> int:
    """Look at this machine: what is here, what is missing, how to get it."""
    options: Options = context.obj
    output = Output(options)
    findings = list(examine(options.data_dir or places.data_dir(os.environ), *_local(options)))
    findings += _engines(options)
    findings += _needs(options)
    with last_words():
        if output.json:
            output.document({"findings": [asdict(finding) for finding in findings]})
        else:
            rows = [(finding.name, finding.state, finding.found) for finding in findings]
            output.table(("What", "State", "Found"), rows)
            for finding in findings:
                if finding.state in ("missing", "warning"):
                    output.say(f"{finding.name}: {finding.means}\n    fix: {finding.fix}")
    return Exit.FAILED if any(finding.needed and finding.state == "missing" for finding in findings) else Exit.OK


def _local(options: Options) -> tuple[Path, str, str]:
    """The supervisor's folder, which settings may put elsewhere, ``local.sandbox``, and the database's URL.

    Wrong settings are told by the commands they stop.
    """
    try:
        settings = settings_for(options)
    except Stop:
        data = options.data_dir or places.data_dir(os.environ)
        return data / "local", "auto", f"{SQLITE}{data / 'placet.db'}"
    return settings.local_folder, settings.local.sandbox, settings.database


def _engines(options: Options) -> Iterator[Finding]:
    """The container engines that settings name, or that are simply there."""
    try:
        settings = settings_for(options)
    except Stop:
        return
    from placet.app import engine_reports  # only this needs it, and it takes a while to load

    for report in engine_reports(settings):
        yield Finding(
            name="container engine" if report.provider == "container" else f"container engine {report.provider}",
            state=report.state,
            found=report.found,
            means=report.means,
            fix=report.fix,
        )


def examine(data: Path, local: Path, sandbox: str, database: str) -> Iterator[Finding]:
    """All findings, the needed ones first."""
    yield _python()
    yield _data_folder(data)
    yield _database(data, database)
    yield _disk(data)
    yield _uv()
    bubblewrap = _bubblewrap()
    yield bubblewrap
    yield _isolation(sandbox, works=bubblewrap.state == "ok")
    yield _control_groups()
    yield _nvml()
    yield _postgresql()
    yield _gpuhunt()
    yield _objects()
    yield _process("server", places.socket_path(data), "commands that need one start it in the background")
    yield _supervisor(local)
    yield from _providers(data)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding(
        name="python",
        state="ok" if sys.version_info >= PYTHON_FLOOR else "missing",
        found=f"{version} ({sys.executable})",
        means="Placet needs Python 3.11 or newer",
        fix="install a newer Python, for example with `uv python install 3.13`",
        needed=True,
    )


def _data_folder(data: Path) -> Finding:
    name, fix = "data folder", f"choose another with PLACET_DATA_DIR, or give {data} to yourself with mode 0700"
    existing = next(folder for folder in (data, *data.parents) if folder.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(name=name, state="missing", found=str(data), means="it cannot be written", fix=fix, needed=True)
    if existing != data:
        return Finding(name=name, state="ok", found=f"{data} (made at the first use)", needed=True)
    mode = data.stat()
    if mode.st_uid != os.getuid() or stat.S_IMODE(mode.st_mode) & 0o077:
        means = "others may read it, or it is not yours"
        return Finding(name=name, state="warning", found=str(data), means=means, fix=fix, needed=True)
    return Finding(name=name, state="ok", found=str(data), needed=True)


def _database(data: Path, url: str) -> Finding:
    """Is the file with the records there, wherever something was recorded?"""
    name = "database"
    if not url.startswith(SQLITE):
        return Finding(name=name, state="ok", found=f"{url.partition('://')[0]}, which the server looks after")
    file = Path(url.removeprefix(SQLITE))
    serves = answers(places.socket_path(data))
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(SQLITE_MAGIC))
    except FileNotFoundError:
        if not serves and not places.token_path(data).exists():
            return Finding(name=name, state="ok", found=f"{file} (made at the first use)")
        means = "it was deleted or moved: what was accepted is not known any more, and what still runs is an orphan"
        fix = f"put {file} back from a backup; a new one is made at the next start (`placet orphans` then)"
        if serves:
            means = "a server works on a file that was deleted or moved: what it records is gone when it ends"
            fix = f"let its work end, end it, then put {file} back from a backup"
        return Finding(name=name, state="missing", found=str(file), means=means, fix=fix, needed=True)
    except OSError as error:
        return Finding(name=name, state="missing", found=str(file), means=f"it cannot be read: {error.strerror}",
                       fix="make it a file of your own", needed=True)  # fmt: skip
    if begins and begins != SQLITE_MAGIC:
        return Finding(name=name, state="missing", found=str(file), means="it is no SQLite database",
                       fix=f"put {file} back from a backup", needed=True)  # fmt: skip
    return Finding(name=name, state="ok", found=f"{file}, {file.stat().st_size / 10**6:.1f} MB", needed=True)


def _disk(data: Path) -> Finding:
    existing = next(folder for folder in (data, *data.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    return Finding(
        name="disk space",
        state="ok" if free >= DISK_FLOOR_BYTES else "warning",
        found=f"{free / 10**9:.1f} GB free",
        means="logs, outputs and cached environments are kept in the data folder",
        fix="free some space, or move the data folder with PLACET_DATA_DIR",
    )


def _uv() -> Finding:
    beside = Path(sys.executable).parent / "uv"
    path = str(beside) if beside.exists() else shutil.which("uv")
    return Finding(
        name="uv",
        state="ok" if path else "missing",
        found=path or "",
        means="workloads of the runtime `python` with requirements cannot be prepared",
        fix="pip install uv",
    )


def _bubblewrap() -> Finding:
    name, path = "bubblewrap", shutil.which("bwrap")
    means = "attempts on this machine see its whole file system; limits still hold"
    if path is None:
        return Finding(name=name, state="missing", found="", means=means, fix="apt-get install bubblewrap")
    works = _succeeds([path, "--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--", "true"])
    return Finding(
        name=name,
        state="ok" if works else "warning",
        found=path if works else f"{path}, which cannot make a sandbox here",
        means=means,
        fix="allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root",
    )


def _isolation(sandbox: str, *, works: bool) -> Finding:
    """What a program that runs here can read, by the setting and by what this machine has."""
    name, open_to = "isolation", "may read the data folder and its token"
    if sandbox == "bubblewrap":
        return Finding(
            name=name,
            state="ok" if works else "missing",
            found="every program is shut in: data folder hidden, rest read-only" if works else "no program is started",
            means="local.sandbox insists on bubblewrap, which does not work here",
            fix="install bubblewrap, or set local.sandbox to auto",
        )
    if sandbox == "auto" and works:
        found = f"only with inputs, or outputs below /outputs, is a program shut in; others {open_to}"
    else:
        found = f"no program is shut in; each {open_to}"
    return Finding(name=name, state="off", found=f'{found} (local.sandbox = "{sandbox}")')


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=PROBE_WITHIN_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _control_groups() -> Finding:
    root = Path("/sys/fs/cgroup")
    unified = (root / "cgroup.controllers").exists()
    places_ = [root] if unified else [root / "memory", root / "cpu", root / "pids"]
    usable = [place for place in places_ if os.access(place, os.W_OK) and (place / "cgroup.procs").exists()]
    return Finding(
        name="control groups",
        state="ok" if len(usable) == len(places_) else "warning",
        found=f"version {2 if unified else 1}, {'can' if len(usable) == len(places_) else 'cannot'} be written",
        means="limits on memory and processes hold per process, not for an attempt as a whole",
        fix="run as root, or delegate a control group to your user (systemd-run --user --scope -p Delegate=yes)",
    )


def _nvml() -> Finding:
    module, device = importlib.util.find_spec("pynvml") is not None, Path("/dev/nvidiactl").exists()
    if not device:
        return Finding(name="nvidia gpus", state="off", found="no driver: this machine offers none")
    return Finding(
        name="nvidia gpus",
        state="ok" if module else "missing",
        found="driver and library" if module else "driver without library",
        means="the GPUs of this machine are not offered",
        fix="pip install '.[nvidia]'",
    )


def _gpuhunt() -> Finding:
    here = importlib.util.find_spec("gpuhunt") is not None
    return Finding(
        name="prices of many clouds",
        state="ok" if here else "off",
        found="gpuhunt" if here else "not installed; needed only to compare prices: pip install '.[gpuhunt]'",
    )


def _objects() -> Finding:
    lacking = [name for name in ("obstore", "boto3") if importlib.util.find_spec(name) is None]
    return Finding(
        name="object stores",
        state="off" if lacking else "ok",
        found=f"not installed: {', '.join(lacking)}; needed only for buckets: pip install '.[objects]'"
        if lacking
        else "obstore, boto3",
    )


def _postgresql() -> Finding:
    here = importlib.util.find_spec("psycopg") is not None
    return Finding(
        name="postgresql driver",
        state="ok" if here else "off",
        found="psycopg" if here else "not installed; needed only for several servers: pip install '.[postgres]'",
    )


def _supervisor(local: Path) -> Finding:
    name = "supervisor"
    try:
        told = supervisor.hello(local)
    except supervisor.Silent as silent:
        return Finding(
            name=name,
            state="warning",
            found=f"{local / 'supervisor'}: {silent}",
            means="attempts on this machine can be neither started nor watched",
            fix=f"see {local / 'supervisor' / 'log'}; to end process {supervisor.process_id(local)} ends its attempts",
        )
    if told is None:
        return Finding(
            name=name, state="off", found="not running; it is started with the first attempt on this machine"
        )
    same = told.version == placet.__version__
    return Finding(
        name=name,
        state="ok" if same else "warning",
        found=f"version {told.version or 'unknown'}, protocol {told.protocol}, "
        f"{told.live} attempts live, {told.kept} kept",
        means="it is of another version of Placet, and goes on while it has something to watch",
        fix="let its attempts end; after a while of nothing to do it leaves, and the next one is of this version",
    )


def _providers(data: Path) -> Iterator[Finding]:
    """What the providers of the server promise and lack, by their contract cards."""
    from placet.cli.commands.promises import lacks, told
    from placet.sdk.client import Client
    from placet.sdk.errors import ClientError

    if not answers(places.socket_path(data)):
        yield Finding(name="providers", state="off", found="known to a running server; `placet provider ls` starts one")
        return
    try:
        with Client(data_dir=data, start=False) as server:
            found = server.providers()
    except ClientError as error:
        yield Finding(name="providers", state="warning", found=str(error), means="their contract cards cannot be read",
                      fix=error.fix)  # fmt: skip
        return
    for one in found:
        missing = tuple(lacks(one.card))
        yield Finding(
            name=f"provider {one.name}",
            state="warning" if missing else "ok",
            found=told(one),
            means="; ".join(missing),
            fix=f"`placet provider show {one.name}` has its whole card" if missing else "",
        )


def _needs(options: Options) -> Iterator[Finding]:
    """What the providers need that the settings of this machine switch on, where they can say so."""
    try:
        settings = settings_for(options)
    except Stop:
        return
    from placet import app

    for provider, findings in asyncio.run(app.examined(settings)).items():
        for one in findings:
            name = f"{provider}: {one.name}"
            yield Finding(name=name, state=one.state, found=one.found, means=one.means, fix=one.fix)


def _process(name: str, path: Path, otherwise: str) -> Finding:
    alive = answers(path)
    return Finding(name=name, state="ok" if alive else "off", found=str(path) if alive else f"not running; {otherwise}")
