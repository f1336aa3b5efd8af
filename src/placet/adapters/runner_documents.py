"""Between the domain's words and the runner's, whoever starts the runner: launches one way, observations the other.

One table each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

from placet.domain.allocations import FoundOutput, Handle, Launch, LogSeal, Observation, Phase, Usage
from placet.domain.errors import InvalidRequest
from placet.domain.failures import Cause
from placet.domain.spec import Repeat, Runtime, RuntimeKind
from placet.runner import causes

Json = dict[str, Any]  # a decoded document of the protocol

PHASES = {
    causes.ACCEPTED: Phase.AWAITING_PERMIT,
    causes.ENVIRONMENT: Phase.PREPARING,
    causes.INPUTS: Phase.PREPARING,
    causes.STARTING: Phase.PREPARING,
    causes.RUNNING: Phase.RUNNING,
    causes.STOPPING: Phase.STOPPING,
    causes.EXITED: Phase.COLLECTING,
    causes.COLLECTING: Phase.COLLECTING,
    causes.ENDED: Phase.ENDED,
    causes.GONE: Phase.GONE,
}
CAUSES = {
    causes.CAUSE_EXITED: Cause.EXIT_CODE,
    causes.CAUSE_SIGNALLED: Cause.SIGNAL,
    causes.CAUSE_KILLED: Cause.KILLED,
    causes.CAUSE_OOM: Cause.OUT_OF_MEMORY,
    causes.CAUSE_TIMEOUT: Cause.TIMEOUT,
    causes.CAUSE_STOPPED: Cause.STOPPED,
    causes.CAUSE_DISK_LIMIT: Cause.DISK_LIMIT,
    causes.CAUSE_START_FAILED: Cause.START_FAILED,
    causes.CAUSE_MACHINE: Cause.PROVIDER_ERROR,
    causes.CAUSE_ENVIRONMENT: Cause.ENVIRONMENT,
    causes.CAUSE_INPUT: Cause.INPUT,
    causes.CAUSE_PERMIT_REFUSED: Cause.STALE_PERMIT,
    causes.CAUSE_SUPERVISOR_LOST: Cause.LOST,
    # Only the manager of the machine knows why; where it does not say, this much is sure.
    causes.CAUSE_HOST: Cause.PREEMPTED,
}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a launch document needs besides the launch: who runs it, and within which bounds of the operator's.

    ``memory_held``: the runner bounds the memory; elsewhere the machine's own manager does.
    """

    provider: str
    log_bytes: int
    sandbox: str = "auto"
    hidden: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    memory_held: bool = True


def launch_document(launch: Launch, terms: Terms) -> Json:
    """The runner's ``launch``. Raises ``InvalidRequest`` for what this provider cannot run."""
    spec, demand, resources = launch.spec, launch.demand, launch.spec.resources
    gpu = launch.offer.gpu
    cpu_cores = demand.cpu_cores if demand.cpu_cores is not None else resources.cpu_cores
    memory_bytes = demand.memory_bytes if demand.memory_bytes is not None else resources.memory_bytes
    log_bytes = terms.log_bytes if spec.log_bytes is None else min(spec.log_bytes, terms.log_bytes)
    return {
        "key": launch.key,
        "nonce": launch.tag.nonce,
        "deployment": launch.tag.deployment,
        "workload_id": launch.tag.workload_id,
        "epoch": launch.tag.epoch,
        **_program(spec.runtime, terms.provider),
        "env": {**dict(spec.environment), **dict(launch.secrets)},
        "hide": [name for name, _ in launch.secrets],
        "workdir": spec.runtime.working_directory,
        "limits": {
            "memory_bytes": memory_bytes if terms.memory_held else None,
            "cpu_cores": _number(cpu_cores),
            "processes": resources.processes,
            "disk_bytes": resources.disk_bytes,
            "runtime_s": _number(launch.runtime_s),
            "log_bytes": log_bytes,
            "grace_s": float(spec.stop_grace_s),
        },
        "reserve": {
            "cpu_cores": _number(cpu_cores),
            "memory_bytes": memory_bytes,
            "gpu_count": demand.gpu_count,
            "gpu_memory_bytes": demand.gpu_memory_bytes,
            "gpu_model": gpu.model if gpu is not None and demand.gpu_count else None,
        },
        "sandbox": terms.sandbox,
        "hidden": list(terms.hidden),
        "inputs": [
            {
                "name": each.name,
                "kind": each.kind,
                "source": each.source.removeprefix("file://") if each.kind == "path" else each.source,
                "sha256": each.sha256,
            }
            for each in launch.inputs
        ],
        "outputs": [{"name": output.name, "path": output.path} for output in spec.outputs],
        "checkpoints": spec.checkpoints is not None or spec.repeat is Repeat.RESUMABLE,
        "allowed_hosts": list(terms.allowed_hosts),
    }


def observation(document: Json, source: str, now_ms: int) -> Observation:
    """What the runner said, in our words; what it does not know is ``UNKNOWN``."""
    native = str(document["phase"])
    phase = PHASES.get(native, Phase.UNKNOWN)
    if phase in (Phase.GONE, Phase.UNKNOWN):
        return Observation(key=document["key"], phase=phase, observed_ms=now_ms, source=source, native_state=native)
    exit_code = document.get("exit_code")
    computed = document.get("cause") == causes.CAUSE_EXITED and exit_code == 0
    ended = phase is Phase.ENDED
    usage = document.get("usage") or {}
    return Observation(
        key=document["key"],
        phase=phase,
        observed_ms=document["observed_ms"],
        source=source,
        native_state=native,
        incarnation=document["incarnation"],
        # A cause the table lacks comes from a newer runner: it ended, and we cannot say why.
        cause=CAUSES.get(document["cause"], Cause.UNRESOLVED) if ended and not computed else None,
        message=document.get("detail") or "",
        exit_code=exit_code,
        signal=document.get("signal"),
        computed=computed,
        collected=ended,
        created_ms=document.get("created_ms"),
        started_ms=document.get("started_ms"),
        ended_ms=document.get("ended_ms"),
        phases_ms=tuple((each["phase"], each["duration_ms"]) for each in document["phases"] if "duration_ms" in each),
        outputs=tuple(_output(each) for each in document.get("outputs") or ()),
        missing=tuple(document.get("missing") or ()),
        skipped=tuple(f"{each['path']}: {each['reason']}" for each in document.get("skipped") or ()),
        problem=document.get("problem") or "",
        logs=tuple(_seal(name, each) for name, each in document["logs"].items() if each["sealed"]),
        usage=Usage(
            cpu_s=usage.get("cpu_s"),
            peak_memory_bytes=usage.get("peak_memory_bytes"),
            disk_bytes=usage.get("disk_bytes"),
            gpu_peak_bytes=usage.get("gpu_peak_bytes"),
        ),
        evidence=_evidence(document),
    )


def handle(document: Json, provider: str, place: str, price_usd_per_hour: Decimal) -> Handle:
    """How to address what the runner keeps."""
    return Handle(
        provider=provider,
        key=document["key"],
        native_id=document["incarnation"],
        created_ms=document["created_ms"],
        place=place,
        nonce=document.get("nonce") or "",
        price_usd_per_hour=price_usd_per_hour,
    )


def _program(runtime: Runtime, provider: str) -> Json:
    match runtime.kind:
        case RuntimeKind.PROCESS:
            return {"command": list(runtime.command)}
        case RuntimeKind.PYTHON:
            return {
                "python": {
                    "script": runtime.script,
                    "text": runtime.script_text,
                    "args": list(runtime.arguments),
                    "requirements": list(runtime.requirements),
                    "version": runtime.python_version,
                }
            }
        case RuntimeKind.CONTAINER:
            raise InvalidRequest("it runs processes and Python scripts, no containers", provider=provider)
        case _:
            assert_never(runtime.kind)


def _number(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _output(document: Json) -> FoundOutput:
    return FoundOutput(
        name=document["name"],
        path=document["path"],
        size_bytes=document["size_bytes"],
        sha256=document["sha256"],
        location=document["file"],
    )


def _seal(name: str, document: Json) -> LogSeal:
    return LogSeal(
        stream=name,
        bytes_total=document["bytes_total"],
        bytes_kept=document["bytes_kept"],
        gaps=tuple((gap["offset"], gap["dropped_bytes"]) for gap in document["gaps"]),
    )


def _evidence(document: Json) -> tuple[tuple[str, str], ...]:
    facts = {"ran": document["ran"], **document["evidence"]}
    return tuple((name, _shown(value)) for name, value in facts.items())


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    if value is None:
        return "unknown"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
