"""One throw-away Slurm per test session: a controller, an accounting database, two nodes on this machine with GPUs that
are only names.

Nothing of it is a service of the machine, everything listens on loopback, and it ends with the session.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.slurm.commands import command_environment, spoken_environment
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.adapters.providers.slurm.provider import SlurmProvider
from placet.adapters.providers.slurm.site import Site
from placet.adapters.providers.slurm.ssh import SshSite
from placet.testing.conformance.provider import Listener
from tests.support.missing import missing
from tests.support.slurm_faults import LossySite, Plan
from tests.support.waiting import wait_until

PROGRAMS = ("sbatch", "slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "mariadb-install-db", "sacctmgr")
START_LIMIT_S = 60.0
ASK_LIMIT_S = 5.0

CONF = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/{tracking}
TaskPlugin=task/{task}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={database_port}
AccountingStoragePass={folder}/run/munge.sock
AccountingStorageTRES=gres/gpu,gres/gpu:a100,gres/gpu:h100
AccountingStoreFlags=job_comment
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
MinJobAge=300
KillWait=2
InactiveLimit=0
SlurmdTimeout=10
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
NodeName=DEFAULT CPUs=8 RealMemory=16000 State=UNKNOWN
NodeName={name}-n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_1} Gres=gpu:a100:4
NodeName={name}-n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port_2} Gres=gpu:h100:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL Default=NO MaxTime=01:00:00 State=UP PriorityTier=10 PreemptMode=OFF
"""
GRES = """
NodeName={name}-n1 Name=gpu Type=a100 File=/dev/tty[10-13]
NodeName={name}-n2 Name=gpu Type=h100 File=/dev/tty[20-21]
"""
DATABASE = """
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={database_port}
SlurmUser=root
PidFile={folder}/run/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=root
StoragePass=unused
StorageLoc=slurm
"""


@dataclass(kw_only=True)
class Cluster:
    """A running cluster; ``environment`` is what its commands need."""

    folder: Path
    name: str
    groups: bool
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    @property
    def shared(self) -> Path:
        """A folder that all nodes see; they are all this machine."""
        return self.folder / "shared"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def node(self, number: int) -> str:
        return f"{self.name}-n{number}"

    def ask(self, *line: str) -> str:
        """What a command of the cluster says."""
        done = subprocess.run(line, env=self.environment, capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr.decode()}"
        return done.stdout.decode()

    def code(self, *line: str) -> int:
        """The exit code of a command of the cluster."""
        return subprocess.run(line, env=self.environment, capture_output=True, timeout=60, check=False).returncode

    def spawn(self, what: str, *line: str) -> None:
        """Start one of its programs, in the foreground of a session of its own."""
        with (self.folder / "log" / f"{what}.out").open("ab") as log:
            self.processes[what] = subprocess.Popen(
                line,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start_controller(self) -> None:
        self.spawn("slurmctld", "slurmctld", "-D", "-f", str(self.conf))

    def start_node(self, number: int) -> None:
        self.spawn(f"n{number}", "slurmd", "-D", "-N", self.node(number), "-f", str(self.conf))

    def kill(self, what: str) -> None:
        """SIGKILL, as a crash would be."""
        process = self.processes.pop(what)
        process.kill()
        process.wait()

    def wait_idle(self) -> None:
        """Until both nodes can take something."""
        until(lambda: self._states() == {"idle"}, "idle nodes", self.folder)

    def wait_for_controller(self) -> None:
        """Until somebody answers again."""
        until(lambda: self._states() != {"unknown"}, "controller", self.folder)

    def _states(self) -> set[str]:
        with contextlib.suppress(subprocess.TimeoutExpired):
            line = ["sinfo", "-h", "-N", "-o", "%T"]
            done = subprocess.run(line, env=self.environment, capture_output=True, timeout=ASK_LIMIT_S, check=False)
            return set(done.stdout.decode().split()) if done.returncode == 0 else {"unknown"}
        return {"unknown"}

    def stop(self) -> None:
        """End what runs in it, then its programs, by their numbers; delete its folder."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            line = ["scancel", "--full", "--signal=KILL", "-u", "root"]
            subprocess.run(line, env=self.environment, capture_output=True, timeout=ASK_LIMIT_S, check=False)
            line = ["scancel", "-u", "root"]
            subprocess.run(line, env=self.environment, capture_output=True, timeout=ASK_LIMIT_S, check=False)
        # Nothing of it is kept, so nothing needs to end well.
        for what in list(self.processes):
            self.kill(what)
        for pid in _stepd(self.name):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.folder / "run" / "munge.pid").read_text()), signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)


def _stepd(name: str) -> list[int]:
    """The processes of Slurm that watch what runs on the nodes of this cluster; they outlive its daemons."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes()
                if line.startswith(b"slurmstepd") and f"{name}-n".encode() in line + environment:
                    found.append(int(entry.name))
    return found


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[Cluster]:
    """The session's cluster; skipped with the reason where there is none, failed where CI=true."""
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        missing(f"no Slurm on this machine ({', '.join(absent)}); scripts/system-packages installs it")
    if os.geteuid() != 0:
        missing("a Slurm of one's own needs root")
    cluster = _made()
    try:
        _started(cluster)
        yield cluster
    finally:
        cluster.stop()


def _made() -> Cluster:
    folder = Path(tempfile.mkdtemp(prefix="placet-slurm-"))
    folder.chmod(0o755)
    for name in ("state", "spool", "log", "run", "shared"):
        (folder / name).mkdir()
    name = f"t{os.getpid()}"
    groups = os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK)
    ports = free_ports(5)
    values = {
        "folder": folder,
        "name": name,
        "host": socket.gethostname().split(".")[0],
        "controller_port": ports[0],
        "database_port": ports[1],
        "sql_port": ports[2],
        "port_1": ports[3],
        "port_2": ports[4],
        "tracking": "cgroup" if groups else "linuxproc",
        "task": "cgroup" if groups else "none",
    }
    (folder / "slurm.conf").write_text(CONF.format(**values))
    (folder / "gres.conf").write_text(GRES.format(**values))
    plugin = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n"
    (folder / "cgroup.conf").write_text(plugin if groups else "")
    database = folder / "slurmdbd.conf"
    database.write_text(DATABASE.format(**values))
    database.chmod(0o600)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    (folder / "sql_port").write_text(str(ports[2]))
    return Cluster(folder=folder, name=name, groups=groups)


def _started(cluster: Cluster) -> None:
    folder = cluster.folder
    run = folder / "run"
    line = ["munged", "-S", f"{run}/munge.sock", f"--key-file={folder}/munge.key", f"--pid-file={run}/munge.pid"]
    line += [f"--log-file={folder}/log/munged.log", f"--seed-file={run}/munge.seed", "--force"]
    subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=START_LIMIT_S, check=True)
    data, port = folder / "db", (folder / "sql_port").read_text()
    install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
    install += ["--skip-test-db", "--user=root"]
    subprocess.run(install, stdin=subprocess.DEVNULL, capture_output=True, timeout=START_LIMIT_S, check=True)
    sql = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={run}/sql.sock"]
    sql += [f"--port={port}", "--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M", "--skip-grant-tables"]
    sql += ["--skip-networking=0", "--innodb-flush-log-at-trx-commit=0", f"--pid-file={run}/sql.pid"]
    cluster.spawn("mariadbd", *sql)
    until((run / "sql.sock").exists, "the SQL server", folder)
    cluster.spawn("slurmdbd", "slurmdbd", "-D")
    until(lambda: _says(cluster, "sacctmgr", "-n", "-i", "show", "cluster"), "the accounting database", folder)
    cluster.ask("sacctmgr", "-i", "-Q", "add", "cluster", cluster.name)
    cluster.start_controller()
    cluster.start_node(1)
    cluster.start_node(2)
    cluster.wait_idle()


def _says(cluster: Cluster, *line: str) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(line, env=cluster.environment, capture_output=True, timeout=ASK_LIMIT_S, check=False)
        assert b"configuration" not in done.stderr, done.stderr.decode()
        return done.returncode == 0
    return False


def until(holds: Callable[[], bool], what: str, folder: Path) -> None:
    """Wait for what a program of the cluster has to do; where it does not, its logs are told."""
    try:
        wait_until(holds, START_LIMIT_S, what)
    except AssertionError as late:
        logs = "\n".join(f"{log.name}: {log.read_text()[-800:]}" for log in sorted((folder / "log").iterdir()))
        raise AssertionError(f"{late}\n{logs}") from None


def free_ports(count: int) -> list[int]:
    """Ports that nobody has at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@dataclass(kw_only=True)
class SlurmWorld:
    """One shared folder on the cluster, and connections to it."""

    cluster: Cluster
    shared: Path
    options: Mapping[str, object] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    ssh: str = ""
    opened: list[SlurmProvider] = field(default_factory=list)

    def make(self) -> SlurmProvider:
        """A provider that is not open."""
        options = SlurmOptions(
            shared=self.shared,
            poll_s=1.0,
            fresh_s=0.1,
            look_s=0.05,
            heartbeat_s=1.0,
            settle_s=0.5,
            visibility_s=5.0,
            call_limit_s=5.0,
        )
        options = replace(options, **self.options)  # type: ignore[arg-type]  # the fields of SlurmOptions, by name
        site: Site = LossySite(command_environment(self.cluster.environment, {}), self.plan)
        if self.ssh:
            spoken = spoken_environment({"SLURM_CONF": str(self.cluster.conf)})
            site = SshSite("cluster", spoken, dict(os.environ), program=self.ssh)
        return SlurmProvider(options, SystemClock(), site)

    async def connect(self, listener: Listener) -> SlurmProvider:
        provider = self.make()
        listener.provider = provider
        await provider.open(listener.hints)
        self.opened.append(provider)
        return provider

    async def close(self) -> None:
        for provider in self.opened:
            await provider.close()
