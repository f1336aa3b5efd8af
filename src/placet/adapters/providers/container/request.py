"""From a launch to what the engine is asked for. Pure. No spec can ask for more rights than stand here."""

import hashlib
import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from placet.adapters.providers.container import names
from placet.adapters.providers.container.options import ContainerOptions
from placet.domain.allocations import Launch
from placet.domain.errors import InvalidRequest
from placet.domain.spec import Repeat, RuntimeKind
from placet.domain.units import GB, MB

Json = dict[str, Any]  # a document that is kept beside the attempt, or sent to the engine

SHELL = "/bin/sh"
BESIDE = f"{names.PLACE}/beside"
NOBODY = "65534:65534"
SHM_LEAST_BYTES = 64 * MB
# Writes of the log driver's own words about a line; the limit is on the file that it writes.
LOG_FILES = 2
# The unit of a shell for the longest file.
BLOCK_BYTES = 512


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """What an image says of itself. ``shell``: it has one, so that the program can be run beside our script."""

    id: str
    architecture: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    folder: str
    shell: bool

    @property
    def root(self) -> bool:
        """Would it run as root?"""
        user = self.user.partition(":")[0].strip()
        return user in ("", "root") or (user.isdigit() and int(user) == 0)


def document(launch: Launch, options: ContainerOptions, gpus: tuple[str, ...]) -> Json:
    """What is kept in the attempt's volume, so that any server can go on with it. Raises ``InvalidRequest``."""
    spec, demand, resources = launch.spec, launch.demand, launch.spec.resources
    runtime = spec.runtime
    if runtime.kind is not RuntimeKind.CONTAINER or not runtime.image:
        raise InvalidRequest("a container engine runs images, nothing else", provider=options.name)
    log_bytes = options.log_bytes if spec.log_bytes is None else min(spec.log_bytes, options.log_bytes)
    return {
        "key": launch.key,
        "deployment": launch.tag.deployment,
        "workload_id": launch.tag.workload_id,
        "epoch": launch.tag.epoch,
        "image": runtime.image,
        "entrypoint": None if runtime.entrypoint is None else list(runtime.entrypoint),
        "command": list(runtime.command),
        "workdir": runtime.working_directory,
        "environment": dict(spec.environment),
        "secrets": dict(launch.secrets),
        "cpu_cores": _number(demand.cpu_cores if demand.cpu_cores is not None else resources.cpu_cores),
        "memory_bytes": demand.memory_bytes if demand.memory_bytes is not None else resources.memory_bytes,
        "processes": resources.processes,
        "disk_bytes": resources.disk_bytes,
        "gpus": list(gpus),
        "runtime_s": _number(launch.runtime_s),
        "grace_s": float(spec.stop_grace_s),
        "log_bytes": log_bytes,
        "inputs": [
            {"name": each.name, "kind": each.kind, "source": each.source, "sha256": each.sha256}
            for each in launch.inputs
        ],
        "outputs": [{"name": each.name, "path": each.path} for each in spec.outputs],
        "checkpoints": spec.checkpoints is not None or spec.repeat is Repeat.RESUMABLE,
    }


def digest(request: Json) -> str:
    """What tells two requests of one name apart. Values of secrets and devices chosen by us are no part of it."""
    plain = {**request, "secrets": sorted(request["secrets"]), "gpus": len(request["gpus"])}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def hold_body(request: Json, labels: Json, image: str) -> Json:
    """The container that only holds the volumes; it is never started."""
    return {
        "Image": image,
        "Cmd": ["/hold"],
        "Labels": {**labels, names.KIND: names.Kind.HOLD.value},
        "HostConfig": {"NetworkMode": "none", "Mounts": _mounts(request, labels, work=True, writable=True)},
    }


def program(request: Json, image: ImageFacts) -> list[str]:
    """The words of the program: what the spec says, else what the image says, as engines combine them."""
    stated = request["entrypoint"]
    entrypoint = list(image.entrypoint) if stated is None else list(stated)
    command = list(request["command"]) or (list(image.command) if stated is None else [])
    return entrypoint + command


def work_folder(request: Json, image: ImageFacts) -> str:
    """Where the program begins, and where relative outputs are."""
    if request["workdir"]:
        return str(request["workdir"])
    return image.folder if image.folder not in ("", "/") else names.WORK


def body(request: Json, labels: Json, image: ImageFacts, options: ContainerOptions) -> Json:
    """The container of the program. Raises ``ValueError`` where there is no program to run."""
    words = program(request, image)
    if not words:
        raise ValueError("neither the spec nor the image says which program to run")
    folder = work_folder(request, image)
    user = image.user if options.allow_root or not image.root else NOBODY
    made: Json = {
        "Image": image.id,
        "User": user,
        "WorkingDir": folder,
        "Env": _environment(request, folder, home=user == NOBODY),
        "Labels": {
            **labels,
            names.KIND: names.Kind.PROGRAM.value,
            names.PLAIN: "" if image.shell else "1",
            names.LIMIT: _seconds(request["runtime_s"]),
            names.GRACE: _seconds(request["grace_s"]),
        },
        "AttachStdin": False,
        "OpenStdin": False,
        "Tty": False,
        "HostConfig": _host(request, labels, options, work=folder == names.WORK),
    }
    if image.shell:
        made["Entrypoint"] = [SHELL, BESIDE]
        blocks = str((request["disk_bytes"] or 0) // BLOCK_BYTES)
        made["Cmd"] = [_seconds(request["runtime_s"]), _seconds(request["grace_s"]), blocks, *words]
    else:
        made["Entrypoint"], made["Cmd"] = words[:1], words[1:]
        if request["disk_bytes"]:
            longest = request["disk_bytes"]
            made["HostConfig"]["Ulimits"] = [{"Name": "fsize", "Soft": longest, "Hard": longest}]
    return made


def _host(request: Json, labels: Json, options: ContainerOptions, *, work: bool) -> Json:
    memory, cores = request["memory_bytes"], request["cpu_cores"]
    host: Json = {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Privileged": False,
        "ReadonlyRootfs": options.read_only_root,
        "PidsLimit": request["processes"] or options.processes,
        "IpcMode": "private",
        "ShmSize": max(SHM_LEAST_BYTES, memory // 2 if memory else GB),
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Mounts": _mounts(request, labels, work=work, writable=False),
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": str(max(request["log_bytes"], MB)), "max-file": str(LOG_FILES)},
        },
    }
    if options.network:
        host["NetworkMode"] = options.network
    if options.read_only_root:
        host["Tmpfs"] = {"/tmp": f"rw,nosuid,nodev,exec,mode=1777,size={options.tmp_bytes}"}  # noqa: S108 - in there
    if memory:
        host["Memory"] = host["MemorySwap"] = memory
    if cores:
        host["NanoCpus"] = int(cores * 10**9)
    if request["disk_bytes"] and options.disk_quota:
        host["StorageOpt"] = {"size": str(request["disk_bytes"])}
    if request["gpus"]:
        host["DeviceRequests"] = [{"Driver": "", "DeviceIDs": request["gpus"], "Capabilities": [["gpu"]]}]
    return host


def _mounts(request: Json, labels: Json, *, work: bool, writable: bool) -> list[Json]:
    key = request["key"]
    inputs, outputs, folder = names.data(key)
    kept = {**labels, names.KIND: names.Kind.DATA.value}
    mounts = [_mount(key, names.PLACE, labels), _mount(outputs, names.OUTPUTS, kept)]
    if request["inputs"]:
        mounts.append(_mount(inputs, names.INPUTS, kept, read_only=not writable))
    if work:
        mounts.append(_mount(folder, names.WORK, kept))
    if request["checkpoints"]:
        shared = {
            names.KIND: names.Kind.CHECKPOINTS.value,
            names.DEPLOYMENT: labels[names.DEPLOYMENT],
            names.WORKLOAD: labels[names.WORKLOAD],
        }
        place = names.checkpoints(request["deployment"], request["workload_id"])
        mounts.append(_mount(place, names.CHECKPOINTS, shared))
    return mounts


def _mount(volume: str, target: str, labels: Json, *, read_only: bool = False) -> Json:
    return {
        "Type": "volume",
        "Source": volume,
        "Target": target,
        "ReadOnly": read_only,
        "VolumeOptions": {"NoCopy": True, "Labels": labels},
    }


def _environment(request: Json, folder: str, *, home: bool) -> list[str]:
    """What is not secret; secrets come in a file, since anybody with the engine can read this."""
    ours = {
        "PLACET_WORKLOAD_ID": request["workload_id"],
        "PLACET_ATTEMPT": str(request["epoch"]),
        "PLACET_INPUTS": names.INPUTS,
        "PLACET_OUTPUTS": names.OUTPUTS,
    }
    if request["checkpoints"]:
        ours["PLACET_CHECKPOINTS"] = names.CHECKPOINTS
    if home:
        ours["HOME"] = folder
    ours["PYTHONUNBUFFERED"] = "1"
    return [f"{name}={value}" for name, value in {**ours, **request["environment"]}.items()]


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _seconds(value: float | None) -> str:
    """For ``sleep``, which need not know fractions: rounded up."""
    return str(int(-(-value // 1))) if value else "0"
