"""What is written for one attempt and asked of the cluster: its runner's order, the script, the command line. Pure.

Every value that comes from outside is one word of a command, never a part of one and never an option.
"""

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from placet.adapters import runner_documents
from placet.adapters.providers.slurm.offers import Row
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.domain.allocations import Launch
from placet.domain.errors import InvalidRequest
from placet.runner.portable import bootstrap

MIB = 1024 * 1024
MINUTE_S = 60
# What a job without any memory of its own stated gets is the cluster's affair; the runner itself takes about this much.
RUNNER_BYTES = 64 * MIB
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%+-]*")
# The time limit of a job that has none of its own is the partition's.
JOB_ID = "SLURM_JOB_ID"
# No input is called so.
SCRIPT = ".script"


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders below the shared one."""

    shared: Path

    @property
    def attempts(self) -> Path:
        return self.shared / "attempts"

    @property
    def closed(self) -> Path:
        """Of keys that must never start again."""
        return self.shared / "closed"

    @property
    def programs(self) -> Path:
        return self.shared / "runner"

    def attempt(self, key: str) -> Path:
        return self.attempts / key


def plain(word: str, what: str, provider: str) -> str:
    """The word, if it can be nothing but a name. Raises ``InvalidRequest``."""
    if PLAIN.fullmatch(word) is None:
        raise InvalidRequest(f"{what} cannot be used as a name at the cluster: {word[:80]!r}", provider=provider)
    return word


def tag_document(launch: Launch, sent_ms: int) -> bytes:
    """The mark of what we made, and when it was sent."""
    tag = launch.tag
    return _encoded(
        {
            "key": launch.key,
            "deployment": tag.deployment,
            "workload_id": tag.workload_id,
            "epoch": tag.epoch,
            "nonce": tag.nonce,
            "sent_ms": sent_ms,
        }
    )


def order_document(launch: Launch, options: SlurmOptions, places: Places, host_grace_s: float, uv: str = "") -> bytes:
    """What the runner is to do. Secrets are not in it."""
    terms = runner_documents.Terms(
        provider=options.name,
        log_bytes=options.log_bytes,
        sandbox="none",
        allowed_hosts=options.allowed_hosts,
        memory_held=False,
    )
    document = runner_documents.launch_document(launch, terms)
    document["env"] = dict(launch.spec.environment)
    # The cluster has admitted it; the machine is looked at instead.
    document["reserve"] = {}
    folder = places.attempt(launch.key)
    for each in document["inputs"]:
        if each["kind"] == "path" and not _visible(Path(each["source"]), options):
            each["source"] = str(folder / "brought" / each["name"])
    script = launch.spec.runtime.script
    if script is not None and document.get("python") and not _visible(Path(script), options):
        document["python"]["script"] = str(folder / "brought" / SCRIPT / Path(script).name)
    settings = {
        "collect_limit_s": options.collect_limit_s,
        "output_bytes": options.output_bytes or 0,
        "python": options.python,
        "uv": uv,
    }
    return _encoded(
        {
            "launch": document,
            "expected": _expected(launch),
            "settings": settings,
            "shared": str(places.shared),
            "report_env": [JOB_ID],
            "permit_within_s": options.permit_within_s,
            "host_grace_s": host_grace_s,
            "heartbeat_s": options.heartbeat_s,
            "look_s": options.look_s,
        }
    )


def secrets_document(launch: Launch) -> bytes:
    """Read once by the runner and deleted."""
    return _encoded(dict(launch.secrets))


def plain_secrets(launch: Launch) -> bytes:
    """The same for a node without Python."""
    return "\n".join([*bootstrap.exports(dict(launch.secrets)), ""]).encode()


def plain_order(order: bytes) -> bytes:
    """What of an order a node without Python needs."""
    return bootstrap.plain(json.loads(order)).encode()


def to_bring(launch: Launch, options: SlurmOptions) -> list[tuple[str, Path]]:
    """What the nodes do not see where it is, and the place below ``brought`` where they will: inputs and the script."""
    found = []
    script = launch.spec.runtime.script
    if script is not None and not _visible(Path(script), options):
        found.append((f"{SCRIPT}/{Path(script).name}", Path(script)))
    for each in launch.inputs:
        source = Path(each.source.removeprefix("file://"))
        if each.kind == "path" and not _visible(source, options):
            found.append((each.name, source))
    return found


def script(options: SlurmOptions, bootstrap: Path, runner: Path, folder: Path) -> bytes:
    """What the job runs: the lines of the operator, then the runner in the place of the shell."""
    words = ["exec", "/bin/sh", str(bootstrap), str(runner), str(folder)]
    python = [f"PLACET_PYTHON={shlex.quote(options.python)}; export PLACET_PYTHON"] if options.python else []
    lines = ["#!/bin/sh", *options.prologue, *python, shlex.join(words)]
    return ("\n".join(lines) + "\n").encode()


def command(launch: Launch, options: SlurmOptions, row: Row, folder: Path) -> list[str]:
    """The ``sbatch`` that sends it; the script comes on standard input."""
    name = options.name
    part = row.partition
    line = ["sbatch", "--parsable"]
    line += [f"--job-name={plain(launch.key, 'the key', name)}", f"--comment={comment(launch.tag.deployment)}"]
    line += [f"--partition={plain(part.name, 'the partition', name)}", "--nodes=1", "--ntasks=1", "--no-requeue"]
    line += [f"--{what}={plain(word, what, name)}" for what, word in _named(part.qos, part.account, part.reservation)]
    line += ["--open-mode=append", f"--output={_log(folder)}", f"--chdir={folder}", "--export=ALL"]
    demand = launch.demand
    cores, memory_bytes = _size(launch)
    if cores is not None:
        line.append(f"--cpus-per-task={cores}")
    if memory_bytes is not None:
        # The runner needs a little beside the program, where the node has it.
        line.append(f"--mem={math.ceil(min(memory_bytes + RUNNER_BYTES, row.memory_bytes) / MIB)}M")
    if demand.gpu_count:
        kind = f"{plain(row.gpu_type, 'the type of GPU', name)}:" if row.gpu_type else ""
        line.append(f"--gres=gpu:{kind}{demand.gpu_count}")
    limit_s = run_limit_s(launch, options)
    if limit_s is not None:
        line.append(f"--time={math.ceil((limit_s + options.margin_s) / MINUTE_S)}")
    return line


def probe(options: SlurmOptions, row: Row) -> list[str]:
    """The question when the smallest of jobs would begin there; nothing is sent."""
    part, name = row.partition, options.name
    line = [
        "sbatch",
        "--test-only",
        f"--partition={plain(part.name, 'the partition', name)}",
        "--ntasks=1",
        "--time=10",
    ]
    line += [f"--{what}={plain(word, what, name)}" for what, word in _named(part.qos, part.account, part.reservation)]
    if row.gpu_count:
        line.append(f"--gres=gpu:{plain(row.gpu_type, 'the type of GPU', name) + ':' if row.gpu_type else ''}1")
    return line


def shortfall(launch: Launch, row: Row) -> str:
    """What is asked for and is in no node; empty where it fits. Many clusters would queue it for ever."""
    cores, memory_bytes = _size(launch)
    words = []
    if cores is not None and cores > row.cpus:
        words.append(f"{cores} processors of {row.cpus}")
    if memory_bytes is not None and memory_bytes > row.memory_bytes:
        words.append(f"{memory_bytes} bytes of memory of {row.memory_bytes}")
    if launch.demand.gpu_count > row.gpu_count:
        words.append(f"{launch.demand.gpu_count} GPUs of {row.gpu_count}")
    return ", ".join(words)


def _size(launch: Launch) -> tuple[int | None, int | None]:
    """Processors and bytes of memory that the program needs."""
    demand, resources = launch.demand, launch.spec.resources
    cores = demand.cpu_cores if demand.cpu_cores is not None else resources.cpu_cores
    memory = demand.memory_bytes if demand.memory_bytes is not None else resources.memory_bytes
    return None if cores is None else max(1, math.ceil(cores)), memory


def run_limit_s(launch: Launch, options: SlurmOptions) -> float | None:
    """How long the program may run, as far as anybody says."""
    return float(launch.runtime_s) if launch.runtime_s is not None else options.default_runtime_s


def comment(deployment: str) -> str:
    """The mark of a deployment, told by the queue. Only plain characters, whatever the deployment is called."""
    return "placet:" + re.sub(r"[^A-Za-z0-9._-]", "_", deployment)[:200]


def read_document(data: bytes | None) -> Mapping[str, object] | None:
    """A document of the shared folder; ``None`` when it is not there or was never completed."""
    if data is None:
        return None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _expected(launch: Launch) -> dict[str, object]:
    """What the machine must have at least: what was offered, where it was asked for."""
    demand = launch.demand
    expected: dict[str, object] = {}
    if demand.gpu_count:
        gpu = launch.offer.gpu
        expected["gpus"] = demand.gpu_count
        expected["gpu_memory_bytes"] = demand.gpu_memory_bytes or (gpu.memory_bytes if gpu else 0)
    if demand.memory_bytes is not None:
        expected["memory_bytes"] = demand.memory_bytes
    if launch.spec.resources.disk_bytes is not None:
        expected["disk_free_bytes"] = launch.spec.resources.disk_bytes
    return expected


def _visible(source: Path, options: SlurmOptions) -> bool:
    return any(source.is_relative_to(folder) for folder in (options.shared, *options.visible))


def _named(qos: str, account: str, reservation: str) -> Sequence[tuple[str, str]]:
    pairs = (("qos", qos), ("account", account), ("reservation", reservation))
    return [(what, word) for what, word in pairs if word]


def _log(folder: Path) -> str:
    """A file name in which nothing stands for something else: Slurm replaces what follows a ``%``."""
    return str(folder / "job.log").replace("%", "%%")


def _encoded(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
