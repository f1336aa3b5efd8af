"""What a decision is made from and what it consists of: facts, effects, situations, steps. Values only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    Observation,
    PermitRequest,
    ResolvedInput,
)
from placet.domain.budgets import Budgeted
from placet.domain.errors import ProviderError
from placet.domain.lessons import NO_LESSONS, Lessons
from placet.domain.offer_table import OfferTable
from placet.domain.records import Artifact, Attempt, Record, Transition
from placet.stages.course import Course
from placet.stages.quote_wait import PATIENCE_S
from placet.stages.tracking import ABSENT_SPAN_S


@dataclass(frozen=True, kw_only=True)
class World:
    """What all decisions of one round share.

    ``offers`` is asked only by who places, at that moment: what was promised in the same round is taken off already.
    ``places`` are the providers and regions that can be seen from here. ``lessons`` is what attempts have taught,
    ``exploration`` the share of workloads that try what little is known of, ``quote_wait_s`` how long one waits for a
    price within its quote. ``absence_span_s`` says for how long
    absence at a provider has to last now. ``hands_off`` is why nothing may be ended by the clock now, and why no
    absence counts. ``budgets`` are those of a tenant and a token.
    """

    now_ms: int
    deployment: str
    worker: str
    offers: Callable[[], OfferTable]
    places: frozenset[tuple[str, str]]
    cards: Mapping[str, ContractCard]
    observe_every_ms: int = 10_000
    lessons: Lessons = NO_LESSONS
    exploration: float = 0.0
    quote_wait_s: float = PATIENCE_S
    absence_span_s: Callable[[str], float] = lambda _: ABSENT_SPAN_S
    hands_off: str = ""
    budgets: Callable[[str, str], tuple[Budgeted, ...]] = lambda _tenant, _token_id: ()


@dataclass(frozen=True, kw_only=True)
class SubmitAnswer:
    """How one submit ended: a handle, or what was raised instead. ``kept`` says that it was not even sent."""

    epoch: int
    handle: Handle | None = None
    error: ProviderError | None = None
    unclear: bool = False
    kept: bool = False


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a look by key found, and when it was begun; ``None``: now."""

    epoch: int
    handles: tuple[Handle, ...]
    asked_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """What became of moving the outputs and logs of an attempt into the artifact store.

    ``may_pass`` says that the problem is one that passes: a full disk, a provider that does not answer.
    """

    epoch: int
    artifacts: tuple[Artifact, ...] = ()
    problem: str | None = None
    may_pass: bool = False


@dataclass(frozen=True, kw_only=True)
class Released:
    """Whether an allocation is proven gone."""

    epoch: int
    gone: bool


@dataclass(frozen=True, kw_only=True)
class StopTaken:
    """The provider took a request to stop; that says nothing of what became of it."""

    key: str


Fact = StopTaken | SubmitAnswer | Found | Delivered | Released | Observation | PermitRequest


@dataclass(frozen=True, kw_only=True)
class Submit:
    """Send the launch; its intent, of this moment, is committed."""

    launch: Launch
    intended_ms: int


@dataclass(frozen=True, kw_only=True)
class Find:
    """Look for the allocation by its key."""

    attempt: Attempt


@dataclass(frozen=True, kw_only=True)
class Observe:
    """Ask the provider how the allocation is."""

    handle: Handle


@dataclass(frozen=True, kw_only=True)
class AnswerPermit:
    """Tell the runner whether it may start."""

    provider: str
    request: PermitRequest
    granted: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class Cancel:
    """Ask the provider to stop the allocation."""

    handle: Handle
    grace_s: float


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """Move outputs and logs into the artifact store."""

    attempt: Attempt
    found: tuple[FoundOutput, ...]


@dataclass(frozen=True, kw_only=True)
class Release:
    """Delete what is left of an ended attempt."""

    attempt: Attempt


Effect = Submit | Find | Observe | AnswerPermit | Cancel | Deliver | Release


@dataclass(frozen=True, kw_only=True)
class Step:
    """A decision: at most one transition, the effects that follow once it is committed, and when to look again.

    ``record`` is what the record becomes by the transition. Without a transition the effects are free to go at once.
    ``look_ms`` of ``None`` means that nothing is left to do. ``course`` is to be shown to the next decision.
    """

    record: Record
    transition: Transition | None = None
    effects: tuple[Effect, ...] = ()
    look_ms: int | None = None
    course: Course | None = None


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Everything one decision looks at.

    ``under_way`` names the effects that are not back yet, and the looks that were begun so lately that their like would
    bring nothing new.

    ``adopted`` means that this worker has just taken the workload over and cannot know what its last owner sent.
    """

    record: Record
    world: World
    facts: tuple[Fact, ...] = ()
    inputs: tuple[ResolvedInput, ...] = ()
    nonce: str = ""
    under_way: frozenset[str] = field(default=frozenset())
    adopted: bool = False
    course: Course | None = None
