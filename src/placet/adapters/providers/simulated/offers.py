"""What the simulated provider lists: a few kinds of machines in two regions, with prices of its own invention. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from placet.domain.gpus import recognise
from placet.domain.offers import Availability, Free, Gpu, Offer, Trust
from placet.domain.spec import CapacityType
from placet.domain.units import GB

RUNTIMES = ("process", "python", "container")
JURISDICTIONS: Mapping[str, str] = {"simulated-eu": "EU", "simulated-us": "US"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the price list; ``machines`` is how many there are, ``quantum_s`` how time is billed."""

    id: str
    region: str
    cpu_cores: int
    memory_gb: int
    gpu_model: str = ""
    gpu_count: int = 0
    price: str
    spot: bool = False
    machines: int
    quantum_s: int = 1


def _row(line: str) -> Row:
    name, region, cores, memory, gpu, price, kind, machines, quantum = line.split()
    count, _, model = gpu.partition("x")
    return Row(
        id=f"{region}-{name}",
        region=region,
        cpu_cores=int(cores),
        memory_gb=int(memory),
        gpu_model=model,
        gpu_count=int(count) if model else 0,
        price=price,
        spot=kind == "spot",
        machines=int(machines),
        quantum_s=int(quantum),
    )


# name, region, cores, memory in GB, GPUs, US dollars per hour, kind, machines, billing quantum in seconds
ROWS = tuple(
    _row(line)
    for line in """
cpu        simulated-eu   8   32  -        0.24 demand 256  1
l4         simulated-eu   8   32  1xL4     0.80 demand   8  1
l4-spot    simulated-eu   8   32  1xL4     0.32 spot     8  1
a100       simulated-eu  24  200  1xA100-80GB 2.10 demand 4 60
h100       simulated-eu  26  220  1xH100-80GB 3.60 demand 4 60
cpu        simulated-us   8   32  -        0.20 demand 256  60
l4         simulated-us   8   32  1xL4     0.72 demand   8  60
a100-spot  simulated-us  24  200  1xA100-80GB 0.95 spot   4  60
h100       simulated-us  26  220  1xH100-80GB 3.30 demand 4 60
h100-spot  simulated-us  26  220  1xH100-80GB 1.49 spot   4  60
h100x8     simulated-us 208 1760  8xH100-80GB 25.60 demand 2 3600
""".strip().splitlines()
)


def make_offers(
    rows: Sequence[Row],
    taken: Mapping[str, int],
    *,
    provider: str,
    startup_s: float,
    by_name_only: bool,
    now_ms: int,
) -> tuple[Offer, ...]:
    """The offers, less the machines that are taken of each. A price of zero is a mistake, no gift."""
    return tuple(
        _offer(row, max(row.machines - taken.get(row.id, 0), 0), provider, startup_s, by_name_only, now_ms)
        for row in rows
        if Decimal(row.price) > 0
    )


def _offer(row: Row, free: int, provider: str, startup_s: float, by_name_only: bool, now_ms: int) -> Offer:
    return Offer(
        id=row.id,
        provider=provider,
        region=row.region,
        jurisdiction=JURISDICTIONS.get(row.region, ""),
        runtimes=RUNTIMES,
        capacity_type=CapacityType.SPOT if row.spot else CapacityType.ON_DEMAND,
        cpu_cores=Decimal(row.cpu_cores),
        memory_bytes=row.memory_gb * GB,
        disk_bytes=1000 * GB,
        gpu=_gpu(row) if row.gpu_model else None,
        price_usd_per_hour=Decimal(row.price),
        billing_quantum_s=row.quantum_s,
        startup_s=Decimal(f"{startup_s:g}"),
        availability=Availability.FREE if free else Availability.FULL,
        free=Free(slots=free, gpus=free * row.gpu_count if row.gpu_model else None),
        observed_ms=now_ms,
        preemptible=row.spot,
        trust=Trust.COMPANY,
        simulated=True,
        by_name_only=by_name_only,
    )


def _gpu(row: Row) -> Gpu:
    [model] = recognise(row.gpu_model).models
    return Gpu(
        model=model.name,
        count=row.gpu_count,
        memory_bytes=model.memory_bytes,
        architecture=model.architecture,
        interconnect="nvlink" if row.gpu_count > 1 else "",
        compute_capability=model.capability,
        features=model.features,
    )
