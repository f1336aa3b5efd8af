"""The account of a workload: nine questions, each answered yes, no or unknown, with evidence, age and source."""

from dataclasses import dataclass
from enum import StrEnum


class Truth(StrEnum):
    """An answer; unknown is one."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Question(StrEnum):
    """The nine questions, in the order in which they are shown."""

    ACCEPTED = "accepted"
    CAPACITY_SECURED = "capacity_secured"
    STARTED = "started"
    STILL_QUEUED = "still_queued"
    SAFE_TO_RETRY = "safe_to_retry"
    RETRY_DUPLICATES = "retry_would_duplicate"
    COMPUTED_NOT_DELIVERED = "computed_not_delivered"
    ADVICE = "advice"
    OWNER = "final_state_owned_by_placet"


class Advice(StrEnum):
    """What the owner of a workload had best do now."""

    WAIT = "wait"
    CANCEL = "cancel"
    RESUBMIT = "resubmit"
    RESOLVE = "resolve"
    REDELIVER = "redeliver"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer; ``events`` are the sequence numbers of the events it rests on, ``source`` who said it."""

    question: Question
    answer: Truth
    why: str
    events: tuple[int, ...] = ()
    age_ms: int | None = None
    source: str = "placet"


@dataclass(frozen=True, kw_only=True)
class Account:
    """All answers at one moment, and the advice with its reason and when to look again."""

    workload_id: str
    at_ms: int
    answers: tuple[Answer, ...]
    advice: Advice
    advice_why: str
    check_again_ms: int | None = None
