"""Why something ended otherwise than asked: a closed list of causes and what each one means for the next step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class FailureClass(StrEnum):
    """The kinds of failure a retry policy speaks of."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    PROVIDER = "provider"
    IMAGE = "image"
    ENVIRONMENT = "environment"
    INPUT = "input"
    PROGRAM = "program"
    MEMORY = "memory"
    TIME = "time"
    PREEMPTED = "preempted"
    LOST = "lost"
    DELIVERY = "delivery"
    POLICY = "policy"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class Fault(StrEnum):
    """Whose fault a failure is."""

    USER = "user"
    INFRASTRUCTURE = "infrastructure"
    NOBODY = "nobody"
    OURS = "ours"


class RetrySafety(StrEnum):
    """May the workload be tried again without a second copy running?"""

    SAFE = "safe"
    AFTER_PROOF = "after_proof"
    POINTLESS = "pointless"


class MoneySpent(StrEnum):
    """Did the attempt cost anything?"""

    NO = "no"
    YES = "yes"
    PERHAPS = "perhaps"


class Where(StrEnum):
    """Where the next attempt has the best chance."""

    NOWHERE = "nowhere"
    SAME_OFFER = "same_offer"
    OTHER_OFFER = "other_offer"
    OTHER_PLACE = "other_place"
    OTHER_PROVIDER = "other_provider"
    LARGER = "larger"


class Cause(StrEnum):
    """What happened, by proof; a cause is never guessed from an exit code alone."""

    NO_CAPACITY = "no_capacity"
    NO_OFFER = "no_offer"
    QUOTE_EXCEEDED = "quote_exceeded"
    BUDGET = "budget_exhausted"
    QUOTA = "quota_exceeded"
    AUTH = "credentials_refused"
    PROVIDER_ERROR = "provider_error"
    INVALID_REQUEST = "invalid_request"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    IMAGE = "image_unavailable"
    ENVIRONMENT = "environment_failed"
    INPUT = "input_unavailable"
    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    KILLED = "killed"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_LIMIT = "disk_limit"
    TIMEOUT = "runtime_limit"
    DEADLINE = "deadline"
    COST_CAP = "cost_cap"
    PREEMPTED = "preempted"
    MOVED = "moved"
    LOST = "attempt_lost"
    UNRESOLVED = "outcome_unknown"
    STALE_PERMIT = "permit_refused"
    OUTPUT_MISSING = "output_missing"
    DELIVERY = "delivery_failed"
    CANCELLED = "cancelled_by_user"
    STOPPED = "stopped"
    INTERNAL = "internal_error"


@dataclass(frozen=True, kw_only=True)
class CauseMeaning:
    """What one cause means for the next step."""

    failure_class: FailureClass
    fault: Fault
    retry: RetrySafety
    money: MoneySpent
    where: Where
    fix: str


def _meaning(
    failure_class: FailureClass, fault: Fault, retry: RetrySafety, money: MoneySpent, where: Where, fix: str
) -> CauseMeaning:
    return CauseMeaning(failure_class=failure_class, fault=fault, retry=retry, money=money, where=where, fix=fix)


_C, _F, _R, _M, _W = FailureClass, Fault, RetrySafety, MoneySpent, Where

MEANINGS: Mapping[Cause, CauseMeaning] = {
    Cause.NO_CAPACITY: _meaning(
        _C.CAPACITY,
        _F.INFRASTRUCTURE,
        _R.SAFE,
        _M.NO,
        _W.OTHER_OFFER,
        "wait, or allow more providers, regions or capacity types",
    ),
    Cause.NO_OFFER: _meaning(
        _C.POLICY,
        _F.USER,
        _R.POINTLESS,
        _M.NO,
        _W.NOWHERE,
        "relax the requirement that no offer meets; `placet offers` lists what exists",
    ),
    Cause.BUDGET: _meaning(
        _C.POLICY,
        _F.USER,
        _R.POINTLESS,
        _M.PERHAPS,
        _W.NOWHERE,
        "have the budget raised (`placet budget set`), then `placet retry`; or ask for less",
    ),
    Cause.QUOTE_EXCEEDED: _meaning(
        _C.POLICY,
        _F.NOBODY,
        _R.POINTLESS,
        _M.NO,
        _W.NOWHERE,
        "the world has moved beyond the quote: ask again with `placet estimate`, and submit with the new quote or none",
    ),
    Cause.QUOTA: _meaning(
        _C.QUOTA, _F.INFRASTRUCTURE, _R.SAFE, _M.NO, _W.OTHER_PLACE, "raise the quota or allow another provider"
    ),
    Cause.AUTH: _meaning(
        _C.PROVIDER, _F.INFRASTRUCTURE, _R.SAFE, _M.NO, _W.OTHER_PROVIDER, "renew the provider's credentials"
    ),
    Cause.PROVIDER_ERROR: _meaning(
        _C.PROVIDER,
        _F.INFRASTRUCTURE,
        _R.AFTER_PROOF,
        _M.PERHAPS,
        _W.OTHER_PLACE,
        "try again later or allow another provider",
    ),
    Cause.INVALID_REQUEST: _meaning(
        _C.POLICY, _F.USER, _R.POINTLESS, _M.NO, _W.NOWHERE, "change the spec as the provider's message says"
    ),
    Cause.START_FAILED: _meaning(
        _C.PROGRAM,
        _F.USER,
        _R.POINTLESS,
        _M.NO,
        _W.NOWHERE,
        "check the command: it must exist, be executable and be reachable",
    ),
    Cause.START_TIMEOUT: _meaning(
        _C.CAPACITY,
        _F.INFRASTRUCTURE,
        _R.AFTER_PROOF,
        _M.PERHAPS,
        _W.OTHER_OFFER,
        "allow more offers or a longer start-up time",
    ),
    Cause.IMAGE: _meaning(
        _C.IMAGE, _F.USER, _R.POINTLESS, _M.PERHAPS, _W.NOWHERE, "check the image's name, tag and credentials"
    ),
    Cause.ENVIRONMENT: _meaning(
        _C.ENVIRONMENT,
        _F.USER,
        _R.SAFE,
        _M.PERHAPS,
        _W.SAME_OFFER,
        "read the install log; check the pinned requirements and the index",
    ),
    Cause.INPUT: _meaning(
        _C.INPUT, _F.USER, _R.SAFE, _M.PERHAPS, _W.SAME_OFFER, "check that the input exists and can be read"
    ),
    Cause.EXIT_CODE: _meaning(
        _C.PROGRAM, _F.USER, _R.SAFE, _M.YES, _W.SAME_OFFER, "read the end of the log; the program failed by itself"
    ),
    Cause.SIGNAL: _meaning(
        _C.PROGRAM,
        _F.USER,
        _R.SAFE,
        _M.YES,
        _W.SAME_OFFER,
        "the program was ended by a signal; look for a crash in the log",
    ),
    Cause.KILLED: _meaning(
        _C.PROGRAM,
        _F.NOBODY,
        _R.SAFE,
        _M.YES,
        _W.SAME_OFFER,
        "something outside sent SIGKILL; there is no proof that memory ran out",
    ),
    Cause.OUT_OF_MEMORY: _meaning(
        _C.MEMORY, _F.USER, _R.SAFE, _M.YES, _W.LARGER, "raise resources.system_memory_gb or reduce the batch size"
    ),
    Cause.DISK_LIMIT: _meaning(_C.MEMORY, _F.USER, _R.SAFE, _M.YES, _W.LARGER, "raise resources.disk_gb or write less"),
    Cause.TIMEOUT: _meaning(
        _C.TIME, _F.USER, _R.SAFE, _M.YES, _W.SAME_OFFER, "raise constraints.maximum_runtime_seconds"
    ),
    Cause.DEADLINE: _meaning(
        _C.TIME, _F.USER, _R.POINTLESS, _M.PERHAPS, _W.NOWHERE, "submit again with a later deadline"
    ),
    Cause.COST_CAP: _meaning(
        _C.POLICY,
        _F.USER,
        _R.POINTLESS,
        _M.PERHAPS,
        _W.NOWHERE,
        "raise constraints.maximum_estimated_cost or allow cheaper offers",
    ),
    Cause.PREEMPTED: _meaning(
        _C.PREEMPTED,
        _F.INFRASTRUCTURE,
        _R.AFTER_PROOF,
        _M.YES,
        _W.SAME_OFFER,
        "allow on-demand capacity, or checkpoint",
    ),
    Cause.MOVED: _meaning(
        _C.POLICY,
        _F.NOBODY,
        _R.AFTER_PROOF,
        _M.YES,
        _W.OTHER_OFFER,
        "nothing: it goes on from its checkpoint on other capacity",
    ),
    Cause.LOST: _meaning(
        _C.LOST,
        _F.INFRASTRUCTURE,
        _R.AFTER_PROOF,
        _M.PERHAPS,
        _W.OTHER_OFFER,
        "its machine vanished: `placet events ID` says why it is not tried again; submit it again if that does no harm",
    ),
    Cause.UNRESOLVED: _meaning(
        _C.LOST,
        _F.INFRASTRUCTURE,
        _R.AFTER_PROOF,
        _M.PERHAPS,
        _W.OTHER_PLACE,
        "wait until the provider's answer is known",
    ),
    Cause.STALE_PERMIT: _meaning(
        _C.INTERNAL,
        _F.INFRASTRUCTURE,
        _R.SAFE,
        _M.NO,
        _W.SAME_OFFER,
        "nothing ran: a newer attempt or a cancel came first",
    ),
    Cause.OUTPUT_MISSING: _meaning(
        _C.DELIVERY,
        _F.USER,
        _R.SAFE,
        _M.YES,
        _W.SAME_OFFER,
        "the program ended well without writing a required output; check its path",
    ),
    Cause.DELIVERY: _meaning(
        _C.DELIVERY,
        _F.INFRASTRUCTURE,
        _R.SAFE,
        _M.YES,
        _W.SAME_OFFER,
        "the outputs were computed but not stored; the message says why and where they are",
    ),
    Cause.CANCELLED: _meaning(
        _C.CANCELLED, _F.NOBODY, _R.SAFE, _M.PERHAPS, _W.SAME_OFFER, "`placet retry` submits it again"
    ),
    Cause.STOPPED: _meaning(
        _C.CANCELLED, _F.NOBODY, _R.SAFE, _M.YES, _W.SAME_OFFER, "the attempt was stopped on request"
    ),
    Cause.INTERNAL: _meaning(
        _C.INTERNAL, _F.OURS, _R.AFTER_PROOF, _M.PERHAPS, _W.SAME_OFFER, "this is a fault of Placet; please report it"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failure with its evidence; ``message`` is fit for people, ``evidence`` for machines."""

    cause: Cause
    message: str
    exit_code: int | None = None
    signal: int | None = None
    evidence: tuple[tuple[str, str], ...] = field(default=())

    @property
    def meaning(self) -> CauseMeaning:
        return MEANINGS[self.cause]
