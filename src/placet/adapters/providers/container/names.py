"""How what is made at an engine is named and marked. The engine's volumes are also where facts are kept: made by name,
once, by whoever comes first, and seen by all servers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from placet.domain.allocations import Handle, Launch, PermitRequest, Tag

KEY = "placet.key"
KIND = "placet.kind"
DEPLOYMENT = "placet.deployment"
WORKLOAD = "placet.workload"
EPOCH = "placet.epoch"
NONCE = "placet.nonce"
DIGEST = "placet.digest"
CREATED = "placet.created"
MARK = "placet.mark"
CAUSE = "placet.cause"
SAYS = "placet.says"
CPU = "placet.cpu"
MEMORY = "placet.memory"
GPUS = "placet.gpus"
PLAIN = "placet.plain"
LIMIT = "placet.limit"
GRACE = "placet.grace"
SAYS_MAX = 2000
COUNT_DIGITS_MAX = 18

PLACE = "/.placet"
INPUTS = "/inputs"
OUTPUTS = "/outputs"
WORK = "/work"
CHECKPOINTS = "/checkpoints"


class Kind(StrEnum):
    """What a thing of ours at the engine is."""

    ATTEMPT = "attempt"
    HOLD = "hold"
    PROGRAM = "program"
    DATA = "data"
    MARK = "mark"
    CHECKPOINTS = "checkpoints"


class Mark(StrEnum):
    """A fact about an attempt that holds for ever once it is there.

    ``STOPPED``: asked to stop. ``REFUSED``: its permit was refused. ``FAILED``: it cannot begin. ``LATE``: over its
    time. ``BEGUN``: somebody starts it. ``GONE``: released; its name is never used again.
    """

    STOPPED = "stopped"
    REFUSED = "refused"
    FAILED = "failed"
    LATE = "late"
    BEGUN = "begun"
    GONE = "gone"


def hold(key: str) -> str:
    """The container that is never started: through it, files come into the volumes before the image is here."""
    return f"{key}.hold"


def mark(key: str, which: Mark) -> str:
    """The volume that is the mark."""
    return f"{key}.{which.value}"


def data(key: str) -> tuple[str, str, str]:
    """The volumes of inputs, outputs and the work folder."""
    return f"{key}.in", f"{key}.out", f"{key}.work"


def checkpoints(deployment: str, workload_id: str) -> str:
    """The volume that all attempts of a workload share."""
    return f"placet-{deployment[:8]}-{workload_id.removeprefix('wl_')}.checkpoints"


def of_launch(launch: Launch, digest: str, gpus: tuple[str, ...], now_ms: int) -> dict[str, str]:
    """What an attempt is marked with, and what it takes of the machine."""
    tag, demand, resources = launch.tag, launch.demand, launch.spec.resources
    cpu = demand.cpu_cores if demand.cpu_cores is not None else resources.cpu_cores
    memory = demand.memory_bytes if demand.memory_bytes is not None else resources.memory_bytes
    return {
        KEY: launch.key,
        KIND: Kind.ATTEMPT.value,
        DEPLOYMENT: tag.deployment,
        WORKLOAD: tag.workload_id,
        EPOCH: str(tag.epoch),
        NONCE: tag.nonce,
        DIGEST: digest,
        CREATED: str(now_ms),
        CPU: str(cpu or 0),
        MEMORY: str(memory or 0),
        GPUS: ",".join(gpus),
    }


def is_count(text: str) -> bool:
    """Whether it is a number that can be used: superscripts are digits too, and a long row of nines is no count."""
    return text.isascii() and text.isdigit() and len(text) <= COUNT_DIGITS_MAX


def count(told: object, otherwise: int = 0) -> int:
    """The number that is told. Whoever may use the engine may have written another word there, which is none."""
    if isinstance(told, bool) or not isinstance(told, int | str):
        return otherwise
    return int(told) if is_count(str(told)) else otherwise


def gpus(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The GPUs that an attempt was given."""
    return tuple(filter(None, labels.get(GPUS, "").split(",")))


def handle(labels: Mapping[str, str], provider: str, place: str) -> Handle:
    """How to address the attempt with these marks."""
    return Handle(
        provider=provider,
        key=labels[KEY],
        native_id=f"{labels[KEY]}/{labels.get(CREATED, '0')}",
        created_ms=count(labels.get(CREATED)),
        place=place,
        nonce=labels.get(NONCE, ""),
    )


def request(labels: Mapping[str, str]) -> PermitRequest:
    """The question whether it may start."""
    tag = Tag(
        deployment=labels.get(DEPLOYMENT, ""),
        workload_id=labels.get(WORKLOAD, ""),
        epoch=count(labels.get(EPOCH)),
        nonce=labels.get(NONCE, ""),
    )
    return PermitRequest(key=labels[KEY], tag=tag)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What the volumes say about one key: its own labels, and the labels of each mark."""

    attempt: Mapping[str, str] | None
    marks: Mapping[Mark, Mapping[str, str]]

    def says(self, which: Mark) -> str:
        """What was written down with the mark."""
        return self.marks.get(which, {}).get(SAYS, "")


def known(volumes: list[Mapping[str, str]]) -> Known:
    """Sorted from the labels of all volumes of one key."""
    attempt: Mapping[str, str] | None = None
    marks: dict[Mark, Mapping[str, str]] = {}
    for labels in volumes:
        if labels.get(KIND) == Kind.ATTEMPT.value:
            attempt = labels
        elif labels.get(KIND) == Kind.MARK.value and labels.get(MARK) in set(Mark):
            marks[Mark(labels[MARK])] = labels
    return Known(attempt=attempt, marks=marks)
