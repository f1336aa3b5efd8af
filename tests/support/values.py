"""Small, complete domain values for tests to vary with ``dataclasses.replace``."""

from decimal import Decimal

from placet.domain.allocations import Observation, Phase
from placet.domain.offers import Availability, Free, Gpu, Offer
from placet.domain.records import Attempt, PlacementNote, Workload
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.domain.states import AttemptState, WorkloadState

NOW_MS = 1_800_000_000_000
SPEC = Spec(runtime=Runtime(kind=RuntimeKind.PROCESS, command=("true",)))
OFFER = Offer(
    id="small",
    provider="somewhere",
    region="here",
    runtimes=("process", "python"),
    cpu_cores=Decimal(4),
    memory_bytes=16 * 10**9,
    availability=Availability.FREE,
    free=Free(slots=4, cpu_cores=Decimal(4), memory_bytes=16 * 10**9),
)
GPU_OFFER = Offer(
    id="large",
    provider="elsewhere",
    region="there",
    runtimes=("process", "container"),
    cpu_cores=Decimal(16),
    memory_bytes=128 * 10**9,
    gpu=Gpu(model="L4", count=2, memory_bytes=24 * 10**9, compute_capability="8.9", features=("bf16", "fp8")),
    price_usd_per_hour=Decimal("0.80"),
    startup_s=Decimal(60),
    availability=Availability.FREE,
    free=Free(slots=2, gpus=2),
)
WORKLOAD = Workload(
    id="wl_" + "0" * 29,
    tenant="tenant",
    spec=SPEC,
    spec_digest="sha256:0",
    created_ms=NOW_MS,
    state=WorkloadState.ACCEPTED,
)
ATTEMPT = Attempt(
    workload_id=WORKLOAD.id,
    epoch=1,
    state=AttemptState.INTENDED,
    key="placet-d-0-1",
    nonce="nonce",
    provider="somewhere",
    placement=PlacementNote(
        offer_id="small",
        provider="somewhere",
        region="here",
        price_usd_per_hour=Decimal("3.60"),
        expected_cost_usd=Decimal(0),
    ),
    created_ms=NOW_MS,
)
SEEN = Observation(key=ATTEMPT.key, phase=Phase.RUNNING, observed_ms=NOW_MS, source="somewhere", created_ms=NOW_MS)
