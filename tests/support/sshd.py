"""A throw-away ssh server on loopback that lets this user in by a key of its own, and a client that knows it."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.missing import missing
from tests.support.slurm import free_ports
from tests.support.waiting import wait_until

# A shell that is not the first one reads no start-up file; that of whoever runs the tests may take long.
SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/pid
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxSessions 100
SetEnv SHLVL=3
"""
CLIENT = """
Host cluster
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
"""


@dataclass(frozen=True, kw_only=True)
class Door:
    """``program`` is an ``ssh`` that knows the host ``cluster``."""

    folder: Path
    program: str


@pytest.fixture(scope="session")
def ssh_door() -> Iterator[Door]:
    """The session's ssh server; skipped with the reason where there is none, failed where CI=true."""
    daemon = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(daemon).exists() or shutil.which("ssh") is None:
        missing("no ssh server and client on this machine; scripts/system-packages installs them")
    folder = Path(tempfile.mkdtemp(prefix="placet-sshd-"))
    [port] = free_ports(1)
    for name in ("host", "user"):
        line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(line, check=True, capture_output=True, timeout=30)
    values = {"folder": folder, "port": port, "user": pwd.getpwuid(os.getuid()).pw_name}
    (folder / "sshd_config").write_text(SERVER.format(**values))
    (folder / "ssh_config").write_text(CLIENT.format(**values))
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    program.chmod(0o700)
    # A folder of its own that it insists on.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([daemon, "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log)
    try:
        wait_until(lambda: (folder / "pid").exists() or process.poll() is not None, 30.0, "ssh server")
        assert process.poll() is None, (folder / "log").read_text()
        yield Door(folder=folder, program=str(program))
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
