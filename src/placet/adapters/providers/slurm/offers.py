"""What a cluster has, as offers: one for the processors of each partition, one for each type of GPU in it. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from placet.adapters.providers.slurm.options import GpuKind, Partition, SlurmOptions
from placet.adapters.providers.slurm.words import is_count, limit_s
from placet.domain.gpus import GpuModel, recognise
from placet.domain.offers import Availability, Gpu, Offer, Trust
from placet.domain.spec import CapacityType

MIB = 1024 * 1024
# The columns of ``sinfo -O``, which it pads to these widths and cuts at them.
COLUMNS = (
    ("Partition", 64),
    ("Time", 24),
    ("StateLong", 24),
    ("Nodes", 12),
    ("CPUs", 12),
    ("Memory", 16),
    ("Gres", 320),
    ("GresUsed", 320),
    ("CPUsState", 48),
)
FORMAT = ",".join(f"{name}:{width}" for name, width in COLUMNS)
# Nodes in these states begin what is sent to them, now or when there is room.
WORKING = ("idle", "mixed", "allocated", "completing", "planned", "reserved")
ROOM = ("idle", "mixed")
BEGINS_SOON_S = Decimal(5)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One offer to be: a partition, and the type of GPU in it, if any. Sizes are those of its largest node."""

    partition: Partition
    cpus: int
    memory_bytes: int
    gpu_type: str = ""
    gpu_count: int = 0
    nodes: int = 1
    limit_s: float | None = None
    room: bool = False


@dataclass(kw_only=True)
class _Node:
    """Nodes that are alike."""

    partition: str
    limit_s: float | None
    state: str
    count: int
    cpus: int
    cpus_idle: int
    memory_bytes: int
    gpus: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


def rows(text: str, options: SlurmOptions) -> list[Row]:
    """What ``sinfo`` printed, as far as it is ours to use."""
    wanted = {partition.name: partition for partition in options.partitions}
    shapes: dict[tuple[str, str], list[_Node]] = {}
    for line in text.split("\n"):
        node = _node(line)
        if node is None or (wanted and node.partition not in wanted):
            continue
        for kind in ("", *node.gpus):
            shapes.setdefault((node.partition, kind), []).append(node)
    return [
        Row(
            partition=wanted.get(partition, Partition(name=partition)),
            cpus=max(node.cpus for node in nodes),
            memory_bytes=max(node.memory_bytes for node in nodes),
            gpu_type=kind if kind != "gpu" else "",
            gpu_count=max(node.gpus.get(kind, 0) for node in nodes),
            nodes=sum(node.count for node in nodes),
            limit_s=nodes[0].limit_s,
            room=any(_room(node, kind) for node in nodes),
        )
        for (partition, kind), nodes in sorted(shapes.items())
    ]


def offer_id(row: Row, options: SlurmOptions) -> str:
    """Stable as long as the partition and the type are called so."""
    kind = f"gpu-{_slug(row.gpu_type or 'any')}" if row.gpu_count else "cpu"
    return f"{options.name}-{_slug(row.partition.name)}-{kind}"


def make_offers(
    found: Sequence[Row],
    options: SlurmOptions,
    *,
    region: str,
    runtimes: tuple[str, ...],
    waits_s: dict[str, float],
    observed_ms: int,
) -> tuple[Offer, ...]:
    """The offers. What is full is not full for ever: it queues, so that only how long is not known."""
    offers = []
    for row in found:
        name = offer_id(row, options)
        wait_s = waits_s.get(name)
        offers.append(
            Offer(
                id=name,
                provider=options.name,
                region=region,
                jurisdiction=options.jurisdiction,
                runtimes=runtimes,
                capacity_type=CapacityType.RESERVED if row.partition.reservation else CapacityType.ON_DEMAND,
                cpu_cores=Decimal(row.cpus),
                memory_bytes=row.memory_bytes,
                gpu=_gpu(row, options) if row.gpu_count else None,
                price_usd_per_hour=row.partition.price_usd_per_hour,
                startup_s=BEGINS_SOON_S if row.room or wait_s is None else Decimal(round(wait_s)),
                availability=Availability.FREE if row.room else Availability.UNKNOWN,
                observed_ms=observed_ms,
                trust=Trust.OWN,
            )
        )
    return tuple(offers)


def _node(line: str) -> _Node | None:
    words, at = [], 0
    for _, width in COLUMNS:
        words.append(line[at : at + width].strip())
        at += width
    partition, limit, state, count, cpus, memory, gres, used, share = words
    idle = share.split("/")
    if not is_count(count) or not is_count(cpus.rstrip("+")) or len(idle) != 4:
        return None
    plain_state = state.rstrip("*~#!%$@^-+")
    if plain_state not in WORKING or state.endswith(("*", "$")):
        return None
    return _Node(
        partition=partition.rstrip("*"),
        limit_s=limit_s(limit),
        state=plain_state,
        count=int(count),
        cpus=int(cpus.rstrip("+")),
        cpus_idle=int(idle[1]) if is_count(idle[1]) else 0,
        memory_bytes=int(re.sub(r"[^0-9]", "", memory) or 0) * MIB,
        gpus=_gres(gres),
        used=_gres(used),
    )


def _gres(text: str) -> dict[str, int]:
    """GPUs by type, of ``gpu:a100:4(S:0-1),gpu:2``; the type of those without one is ``gpu``."""
    found: dict[str, int] = {}
    for each in re.sub(r"\([^)]*\)", "", text).split(","):
        words = each.split(":")
        if words[0] != "gpu" or not is_count(words[-1]):
            continue
        kind = words[1] if len(words) > 2 else "gpu"
        found[kind] = found.get(kind, 0) + int(words[-1])
    return {kind: count for kind, count in found.items()}


def _room(node: _Node, kind: str) -> bool:
    if node.state not in ROOM or not node.cpus_idle:
        return False
    if not kind:
        return True
    # Lines of several nodes tell what all of them use together.
    return node.used.get(kind, 0) < node.gpus[kind] * node.count


def _gpu(row: Row, options: SlurmOptions) -> Gpu:
    kind = _kind(row.gpu_type, options.gpus)
    known = _known(kind.model, kind.memory_bytes)
    return Gpu(
        model=kind.model,
        count=row.gpu_count,
        memory_bytes=kind.memory_bytes,
        architecture=known.architecture if known else "",
        compute_capability=known.capability if known else None,
    )


def _kind(word: str, stated: Sequence[GpuKind]) -> GpuKind:
    """What the operator says that it is, else what is known by that name; of several the smallest is believed."""
    for kind in stated:
        if kind.type == word:
            return kind
    models = recognise(word).models if word else ()
    if not models:
        return GpuKind(type=word, model=word or "unknown", memory_bytes=0)
    least = min(models, key=lambda model: model.memory_bytes)
    return GpuKind(type=word, model=least.name, memory_bytes=least.memory_bytes)


def _known(model: str, memory_bytes: int) -> GpuModel | None:
    found = [one for one in recognise(model).models if one.memory_bytes == memory_bytes]
    return found[0] if len(found) == 1 else None


def _slug(word: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")
