"""The REST shapes: what clients send besides specs, and what they get back. Only pydantic stands here, no domain.

Times are ISO 8601 in UTC (``..._at``), durations milliseconds (``..._ms``), money text in US dollars (``..._usd``),
sizes bytes (``..._bytes``). States and other words are plain text, so that an older client can read a newer server;
clients ignore fields they do not know.
"""

from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from placet.contract.forecasts import ForecastView, IntervalView, QuantilesView, QuoteView, RelaxationView

Item = TypeVar("Item")
Document: TypeAlias = dict[str, Any]  # a JSON object with a schema of its own


class View(BaseModel):
    """What all replies share."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class ProblemView(View):
    """One mistake: a stable code, where, what, why, and the smallest change that helps."""

    code: str = Field(description="Stable; the reference of codes explains each.")
    field: str = Field(description="A path such as `resources.cpu_cores`; empty for the whole document.")
    what: str
    why: str
    fix: str
    line: int | None = Field(default=None, description="Line in the document, from 1, where it could be found.")


class ProblemDetails(View):
    """Every refusal (RFC 9457, media type application/problem+json)."""

    type: str = Field(description="`urn:placet:problem:` and the code.")
    title: str
    status: int
    code: str
    detail: str = ""
    fix: str = ""
    request_id: str = ""
    errors: list[ProblemView] = []
    relaxations: list[RelaxationView] = Field(default=[], description="What would make an infeasible spec feasible.")
    workload_id: str | None = Field(default=None, description="The workload that a key conflict is with.")


class Page(View, Generic[Item]):
    """A part of a list; `next` is the `cursor` of the page after it, absent on the last one."""

    items: list[Item]
    next: str | None = None


class CauseView(View):
    """Why something ended otherwise than asked, and what that means for the next step."""

    code: str = Field(description="What happened, by proof.")
    failure_class: str = Field(alias="class", description="What a retry policy speaks of.")
    fault: str = Field(description="Whose fault: user, infrastructure, nobody, ours.")
    retry: str = Field(description="Is another try safe: safe, after_proof, pointless.")
    money_spent: str = Field(description="no, yes, perhaps")
    where: str = Field(default="", description="Where the next try has the best chance.")
    exit_code: int | None = None
    signal: int | None = None
    evidence: dict[str, str] = {}

    model_config = ConfigDict(
        frozen=True, extra="ignore", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )


class FailureView(View):
    """A cause with its words for people."""

    cause: CauseView
    message: str = ""
    fix: str = ""


class UsageView(View):
    """What an attempt used, as far as it was measured."""

    cpu_s: float | None = None
    peak_memory_bytes: int | None = None
    disk_bytes: int | None = None
    gpu_peak_bytes: int | None = Field(default=None, description="Of the GPU of which it used most.")


class LogSealView(View):
    """The final account of one log stream; `bytes_total` counts also what was dropped."""

    epoch: int
    stream: str
    bytes_total: int
    bytes_kept: int
    gaps: list[list[int]] = Field(default=[], description="Pairs: where bytes are missing, from and to.")
    sealed: bool = True


class PlacementView(View):
    """Why an attempt runs where it runs."""

    provider: str
    offer: str
    region: str = ""
    price_usd_per_hour: str | None = None
    expected_cost_usd: str
    score: dict[str, str] = {}
    dropped: dict[str, int] = Field(default={}, description="How many offers each filter dropped.")
    why: list[str] = []
    forecast: ForecastView | None = Field(default=None, description="What was expected; noted for the first attempt.")
    simulated: bool = Field(default=False, description="Nothing of it is real: no machine, no program, no money.")


class AttemptView(View):
    """One try."""

    epoch: int
    state: str
    desired: str
    provider: str
    placement: PlacementView
    created_at: str
    submitted_at: str | None = None
    permitted_at: str | None = Field(default=None, description="When it was allowed to start user code.")
    started_at: str | None = None
    exited_at: str | None = None
    finished_at: str | None = None
    observed_at: str | None = Field(default=None, description="When the provider was last heard of it.")
    exit_code: int | None = None
    signal: int | None = None
    computed: bool = False
    failure: FailureView | None = None
    cost_usd: str = Field(default="0", description="What it cost; while it is not over, so far.")
    price_usd_per_hour: str | None = Field(
        default=None, description="As its provider says of it; where that says nothing, as it was offered."
    )
    live_ms: int | None = Field(default=None, description="While it is not over: how long ago it was submitted.")
    cost_at_most: bool = Field(
        default=False, description="Nobody knows when it ended; `cost_usd` is the most it may have cost."
    )
    wasted_usd: str = Field(default="0", description="Its cost, if it is over and did not do the work.")
    phases_ms: dict[str, int] = {}
    usage: UsageView = UsageView()
    logs: list[LogSealView] = []


class AttemptList(View):
    """All attempts of a workload, first to last."""

    items: list[AttemptView]


class WorkloadSummary(View):
    """One line of a list."""

    id: str
    name: str | None = None
    state: str
    desired: str
    final: bool
    reason: str = Field(default="", description="What it is doing or waiting for.")
    created_at: str
    state_since: str
    finished_at: str | None = None
    attempts: int = Field(default=0, description="How many tries there were so far.")
    compute_done: bool = False
    delivery: str
    cause: str | None = None
    labels: dict[str, str] = {}
    retry_of: str | None = None
    simulated: bool = Field(default=False, description="At least one of its tries was not real.")
    quoted_usd: str | None = Field(default=None, description="The bound of the quote that it was submitted with.")


class StopView(View):
    """How far a stop has come. `still_usd_per_hour` may go on until the stop is `confirmed`: proven at the provider."""

    stage: str = Field(description="requested, delivered, unconfirmed (overdue), confirmed")
    requested_at: str
    still_usd_per_hour: str


class WorkloadView(WorkloadSummary):
    """A workload with all that was asked and all its attempts."""

    spec: Document = Field(description="The spec as it was understood, with every default: a valid spec document.")
    spec_digest: str
    failure: FailureView | None = None
    attempt_list: list[AttemptView] = []
    stop: StopView | None = Field(default=None, description="Only where a stop was asked for.")
    warnings: list[ProblemView] = Field(default=[], description="Only in the reply to a submit.")
    existed: bool = Field(default=False, description="True when an idempotency key found an earlier workload.")


class EventView(View):
    """One line of the append-only account."""

    seq: int
    at: str
    kind: str
    actor: str
    epoch: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    cause: str | None = None
    message: str = ""
    data: dict[str, str] = {}


class ArtifactView(View):
    """One delivered output; `href` gives its bytes."""

    name: str
    path: str
    epoch: int
    size_bytes: int
    sha256: str
    media_type: str = "application/octet-stream"
    created_at: str | None = None
    href: str | None = None


class GpuView(View):
    """The devices of one offer; `memory_bytes` is that of one."""

    model: str
    count: int
    memory_bytes: int
    architecture: str = ""
    interconnect: str = Field(default="", description="What joins them, such as `nvlink`.")
    compute_capability: str | None = None
    features: list[str] = []
    driver_version: str | None = None
    cuda_version: str | None = None


class OfferView(View):
    """One concrete way to run a workload, with its price and the age of what is known about it."""

    id: str
    provider: str
    region: str = ""
    jurisdiction: str = ""
    compliance: list[str] = []
    runtimes: list[str] = []
    capacity_type: str
    cpu_cores: str
    memory_bytes: int
    disk_bytes: int | None = None
    gpu: GpuView | None = None
    nodes_max: int = 1
    price_usd_per_hour: str
    minimum_charge_usd: str = "0"
    billing_quantum_s: int = Field(default=1, description="Time is paid for in steps of this.")
    startup_s: str = Field(default="0", description="Median time until a program starts.")
    startup_p90_s: str | None = Field(default=None, description="Nine of ten starts take no longer.")
    availability: str
    availability_at: str | None = Field(default=None, description="When that was so.")
    observed_at: str | None = None
    preemptible: bool = False
    connected: bool = Field(default=True, description="An adapter offers it; else it is only listed, for comparison.")
    trust: str = Field(default="unknown", description="Whose machine: own, company, community, unknown.")
    price_source: str = Field(default="", description="The price list that says so; empty for the provider itself.")
    priced_at: str | None = Field(default=None, description="When the price was so.")
    stale: bool = Field(default=False, description="The price is older than it should be, or its source fails.")
    simulated: bool = Field(default=False, description="Nothing of it is real: no machine, no program, no money.")


class SpanView(View):
    """Bytes between two bounds; `likely` leans to the safe side."""

    low: int
    likely: int
    high: int


class DemandView(View):
    """What was derived from the spec."""

    gpu_count: int = 0
    gpu_memory_bytes: int | None = None
    cpu_cores: str | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    nodes: int = 1
    runtime_s: IntervalView | None = None
    disk: SpanView | None = Field(
        default=None,
        description="What is known or assumed of the disk; `disk_bytes` is as stated, else the likely one.",
    )
    reasons: list[str] = []


class RankedView(View):
    """An offer that fits, with the parts of its score."""

    offer: OfferView
    cost_usd: IntervalView
    score: str
    parts: dict[str, str] = {}


class DropView(View):
    """An offer that does not fit, and the first reason why."""

    offer_id: str
    filter: str
    fate: str = Field(description="`not_now` may be waited for, `never` may not.")
    reason: str = ""


class PlanView(View):
    """Ranked offers, and every dropped one."""

    fate: str
    reason: str = ""
    ranked: list[RankedView] = []
    drops: list[DropView] = []
    drop_counts: dict[str, int] = {}
    relaxed: list[str] = Field(default=[], description="Preferences that could not be kept.")


class SourceView(View):
    """Where offers come from: a provider's adapter, or a price list with what was read of it last."""

    name: str
    kind: str = Field(description="provider, or list")
    state: str = Field(description="reading, fresh, stale, failing")
    offers: int = 0
    quarantined: int = Field(default=0, description="Prices that were not believed.")
    corrected: int = Field(default=0, description="Rows that were believed after a correction.")
    hidden: int = Field(default=0, description="Offers that an earlier source lists too.")
    read_at: str | None = Field(default=None, description="The last good reading, from which its offers are.")
    tried_at: str | None = None
    priced_at: str | None = Field(default=None, description="The time of its newest price.")
    failure: str = ""
    fix: str = ""
    warnings: list[str] = []


class OfferPage(Page[OfferView]):
    """Offers, those that can be dispatched to first, then by price; and the sources they are from."""

    left_out: int = Field(default=0, description="How many more there are.")
    sources: list[SourceView] = []


class QuarantinedView(View):
    """A line of a price list, or one of its prices, that was not believed."""

    source: str
    row: str = Field(description="Part of the source and line in it.")
    provider: str
    instance: str = ""
    region: str = ""
    gpu: str = ""
    capacity: str = Field(default="", description="The price in question; empty for the whole line.")
    price_usd_per_hour: str | None = None
    reason: str
    why: str


class CorrectedView(View):
    """A line of a price list that was believed after a correction."""

    source: str
    row: str
    provider: str
    instance: str = ""
    what: str


class QuarantinePage(Page[QuarantinedView]):
    """What was not believed, and what only after a correction."""

    left_out: int = Field(default=0, description="How many more were set aside.")
    corrected: list[CorrectedView] = []
    corrected_left_out: int = 0
    sources: list[SourceView] = []


class MatchView(View):
    """What became of every offer, price lists included, for one spec."""

    accepted: bool = Field(description="Would it be accepted as it is?")
    demand: DemandView
    plan: PlanView = Field(description="Over all offers; what is only listed is dropped by the filter `connected`.")
    considered: int
    fits: int
    listed: list[RankedView] = Field(default=[], description="What is only listed and would fit, best first.")
    drops: list[DropView] = Field(default=[], description="Dropped offers with their reasons, the nearest first.")
    left_out: int = Field(default=0, description="How many more were dropped.")
    filter_fields: dict[str, str] = Field(default={}, description="The field of the spec that each filter checks.")
    problems: list[ProblemView] = []
    relaxations: list[RelaxationView] = Field(default=[], description="What would make an infeasible spec feasible.")
    sources: list[SourceView] = []


class EstimateView(View):
    """What would happen and what it may cost; nothing is done."""

    accepted: bool = Field(description="Would it be accepted as it is?")
    demand: DemandView
    plan: PlanView
    listed: list[RankedView] = Field(
        default=[], description="What price lists name and would fit if its provider were connected; best first."
    )
    cost_usd: IntervalView | None = None
    forecast: ForecastView | None = Field(default=None, description="Of the best offer.")
    now: bool = Field(default=True, description="False: what fits is not free now; times count from when it is.")
    starts_at: QuantilesView | None = Field(default=None, description="When it would start if submitted now.")
    finishes_at: QuantilesView | None = Field(default=None, description="When it would end if submitted now.")
    quote: QuoteView | None = None
    assumptions: list[str] = []
    problems: list[ProblemView] = []
    relaxations: list[RelaxationView] = Field(default=[], description="What would make an infeasible spec feasible.")
    warnings: list[ProblemView] = []
    spec_digest: str | None = None


class MemoryPartView(View):
    """One thing that takes memory on each GPU, or room on the disk."""

    name: str
    bytes: SpanView
    why: str = ""


class SplitView(View):
    """A model on GPUs of one size: the fewest that hold it, and what each of them holds."""

    gpu_memory_bytes: int
    gpu_count: int | None = Field(description="`null`: no number of them does.")
    bytes: SpanView | None = None


class MeasuredView(View):
    """What equal attempts of the tenant were measured to use of a GPU at most."""

    peak_bytes: int
    attempts: int
    why: str


class DiskView(View):
    """How much disk a spec takes, and why; what is only assumed has no lower bound."""

    bytes: SpanView
    recommended_bytes: int = Field(description="What is asked of an offer where the spec states nothing.")
    parts: list[MemoryPartView] = []


class SizeView(View):
    """How much memory a model needs on each GPU, how much disk the spec takes, and why. Without a model what is said of
    one is empty and zero."""

    model: str = Field(description="The architecture that the hint was taken for.")
    model_source: str = Field(description="Where its shape is from.")
    task: str
    gpu_count: int
    bytes: SpanView
    recommended_bytes: int = Field(description="What each GPU should have, at least: as measured, else as estimated.")
    measured: MeasuredView | None = None
    disk: DiskView | None = Field(default=None, description="`null`: the spec names nothing that takes room.")
    parts: list[MemoryPartView] = []
    assumptions: list[str] = []
    splits: list[SplitView] = []


class DryRunView(View):
    """The reply to a submit with `dry_run`: nothing was stored."""

    dry_run: Literal[True] = True
    accepted: bool
    spec: Document
    spec_digest: str
    problems: list[ProblemView] = []
    relaxations: list[RelaxationView] = []
    warnings: list[ProblemView] = []


class AnswerView(View):
    """One of the nine answers."""

    question: str
    answer: str = Field(description="yes, no, unknown")
    why: str
    events: list[int] = Field(default=[], description="Sequence numbers of the events it rests on.")
    age_ms: int | None = Field(default=None, description="Age of the newest evidence.")
    source: str = "placet"


class AccountView(View):
    """The nine answers at one moment, and what had best be done now."""

    workload_id: str
    at: str
    answers: list[AnswerView]
    advice: str = Field(description="wait, resolve, redeliver, cancel, resubmit, nothing")
    advice_why: str
    check_again_at: str | None = None


class CancelView(View):
    """What a cancel did: asked for the end, found it asked for already, or came too late."""

    workload: WorkloadSummary
    changed: bool
    already_final: bool


class HealthView(View):
    """Is the server alive, or ready?"""

    status: str
    version: str
    checks: dict[str, str] = {}


class ResultAttempt(View):
    """One try, in the result."""

    epoch: int
    state: str
    provider: str
    offer: str
    region: str
    price_usd_per_hour: str
    created_at: str
    started_at: str | None
    exited_at: str | None
    exit_code: int | None
    signal: int | None
    cause: str | None
    message: str
    cost_usd: str
    cost_at_most: bool = Field(
        default=False, description="Nobody knows when it ended; `cost_usd` is the most it may have cost."
    )
    cpu_s: float | None
    peak_memory_bytes: int | None
    gpu_peak_bytes: int | None = Field(default=None, description="Of the GPU of which it used most, where measured.")
    phases_ms: dict[str, int]
    simulated: bool = Field(default=False, description="Nothing of this try was real.")


class ResultTiming(View):
    """How long each phase took."""

    total_ms: int | None
    until_first_start_ms: int | None
    last_run_ms: int | None
    delivery_ms: int | None


class ResultCost(View):
    """What it cost: the try that computed, what was spent around it, and the tries that came to nothing."""

    useful_usd: str
    overhead_usd: str
    wasted_usd: str
    total_usd: str
    at_most: bool = Field(default=False, description="The cost of a try whose end nobody saw counts at its most.")


class ResultView(View):
    """The final document: the same keys for every ending, written once."""

    version: Literal["v1"]
    workload_id: str
    name: str | None
    state: str
    cause: CauseView | None
    message: str
    fix: str | None
    spec_digest: str
    created_at: str
    finished_at: str | None
    attempts: list[ResultAttempt]
    placement: PlacementView | None
    timing: ResultTiming
    cost: ResultCost
    outputs: list[ArtifactView]
    delivery: str
    compute_done: bool
    logs: list[LogSealView]
    retry_of: str | None
    simulated: bool = Field(default=False, description="At least one of its tries was not real.")
    digest: str = Field(description="`sha256:` over the canonical text of everything but this.")


WorkloadPage: TypeAlias = Page[WorkloadSummary]
EventPage: TypeAlias = Page[EventView]
ArtifactPage: TypeAlias = Page[ArtifactView]
