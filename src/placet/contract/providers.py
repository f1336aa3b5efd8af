"""Providers as a server has them: what each offers now, and its contract card."""

from pydantic import Field

from placet.contract.api import View


class StoppingView(View):
    """What asking for a stop does."""

    idempotent: bool
    asynchronous: bool = Field(description="The effect is seen later, never in the reply.")
    refused_in: list[str] = Field(description="Phases in which it is refused and asked again later.")


class RateLimitView(View):
    """No more than so many calls in so many seconds."""

    verb: str
    calls: int
    per_s: float


class ErrorRuleView(View):
    """A status and a text within the body mean this."""

    status: int | None = Field(default=None, description="Absent: any.")
    marker: str = Field(default="", description="Empty: any body.")
    kind: str


class NamingView(View):
    """How what is created carries our name."""

    unique: bool
    key_kept_s: int | None = Field(default=None, description="Absent: as long as the thing is known.")
    checks_parameters: bool
    length_max: int
    searchable: bool


class CardView(View):
    """What a provider promises and lacks; the engine and the conformance kit read it instead of asking for names."""

    identity: str
    naming: NamingView
    visibility_s: float = Field(description="V: an existing thing may stay invisible so long.")
    late_create_s: float | None = Field(
        default=None, description="D: a sent create may take effect so much later; absent: nobody knows."
    )
    bound_to_place: bool
    lists_completely: bool
    list_paged: bool
    list_across_regions: bool
    states: dict[str, str] = Field(description="Its words and our phases; any other word is unknown.")
    forgets_after_s: int | None = Field(default=None, description="Absent: remembered until released.")
    exit_code: bool
    exit_code_reliable: bool
    restarts_by_itself: bool
    fence: bool = Field(description="Nothing of the user's runs without a permit for the newest attempt.")
    stopping: StoppingView
    preempt_notice_s: float | None = Field(default=None, description="Absent: none is promised.")
    time_to_live: bool = Field(description="It can be told to delete a thing by itself after a time.")
    price_echo: str = Field(description="Where it says the price of what it made: nowhere, create_reply, read_back.")
    billing_quantum_s: int
    rate_limits: list[RateLimitView]
    error_table: list[ErrorRuleView] = Field(
        default=[], description="The first that fits counts; else outcome_unknown."
    )
    two_phase_create: bool
    logs_offsets: bool
    logs_kept_s: int | None = Field(default=None, description="Absent: until released.")
    log_streams: list[str]
    outputs_are_files: bool = Field(description="Outputs are files on the server's machine, taken over without a copy.")
    runtimes: list[str]
    notes: list[str]


class ProviderMessageView(View):
    """A kind of sentence that no table of the provider knows, as it was last said, without what is private."""

    provider: str
    verb: str = Field(description="What was asked of the provider.")
    text: str
    count: int
    first_at: str
    last_at: str


class ProviderMessages(View):
    """The latest first; so many of each provider are kept at most."""

    items: list[ProviderMessageView]


class ProviderView(View):
    """A provider that is set up on this server."""

    name: str
    simulated: bool = Field(default=False, description="Nothing of it is real: no machine, no program, no money.")
    offers: int = Field(default=0, description="How many it has now.")
    free: int = Field(default=0, description="How many of them say that something is free.")
    regions: list[str]
    runtimes: list[str]
    observed_at: str | None = Field(default=None, description="When it was last heard of.")
    card: CardView


class ProviderList(View):
    """Every provider of this server."""

    items: list[ProviderView]
