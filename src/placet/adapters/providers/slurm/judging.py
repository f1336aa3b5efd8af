"""What is true of an attempt, from the runner's last word, the cluster's, and what lies in the shared folder. Pure.

The runner's word counts for what the program did, the cluster's for what became of the machine. Neither is believed
beyond what it can know, and what nobody knows is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from placet.adapters import runner_documents
from placet.adapters.providers.slurm.words import CAUSES, STATES, Job
from placet.domain.allocations import Observation, Phase
from placet.domain.failures import Cause
from placet.runner import causes

# Ends of which the runner saw the effect and not the reason: the cluster's word is waited for.
BY_THE_HOST = (causes.CAUSE_KILLED, causes.CAUSE_HOST)
# Of the runner, where it did nothing.
EXIT_TAKEN, EXIT_NO_ORDER = 94, 96
ACCOUNTS_LATE_MS = 30_000


@dataclass(frozen=True, kw_only=True)
class Known:
    """All that was found out about one attempt. ``status`` is read after ``job``, so that it is not older.

    ``looked_ms`` is when. ``settle_ms``: so long after its end the runner's last word may still be on its way.
    ``visible_ms``: so long what was sent may be invisible.
    """

    key: str
    provider: str
    looked_ms: int
    sent_ms: int
    job: Job | None = None
    status: Mapping[str, Any] | None = None
    folder: bool = True
    closed: bool = False
    stopped: bool = False
    settle_ms: int = 0
    visible_ms: int = 0
    accounting: bool = True


def judge(known: Known) -> Observation:
    """One observation; ``ENDED`` only where it cannot change any more."""
    job, status = known.job, known.status
    if not known.folder:
        if job is not None and not job.over:
            return _by_state(known, job, "its folder is gone")
        return _seen(known, Phase.GONE)
    if status is not None and status.get("phase") == causes.ENDED:
        return _last_word(known, status)
    if job is None:
        return _unlisted(known)
    if not job.over:
        return _living(known, job)
    # The queue tells that it is over before the accounts tell how.
    late_ms = ACCOUNTS_LATE_MS if job.queued and known.accounting else 0
    if known.looked_ms - (job.end_ms or 0) < max(known.settle_ms, late_ms):
        return _seen(known, Phase.STOPPING, job)
    return _cut_off(known, job)


def is_sufficient(status: Mapping[str, Any] | None) -> bool:
    """Whether the runner's word is the last one, and nothing that the cluster could say would change it."""
    if status is None or status.get("phase") != causes.ENDED or "refused" in status:
        return False
    return status.get("cause") not in BY_THE_HOST


def _last_word(known: Known, status: Mapping[str, Any]) -> Observation:
    if "refused" in status:
        message = f"its runner refused it: {status.get('detail', '')}"
        return _ended(known, known.job, Cause.PROVIDER_ERROR, message)
    told = _told(known, status)
    if status.get("cause") not in BY_THE_HOST or known.job is None:
        return told
    if not known.job.over:
        # It is over for the program, and not yet for the cluster, which will say why.
        return replace(told, phase=Phase.STOPPING, cause=None, collected=False)
    cause, message = _reason(known, known.job)
    if known.job.state not in CAUSES:
        return told
    return replace(told, cause=cause, message=f"{message}; {told.message}", computed=False, exit_code=None, signal=None)


def _unlisted(known: Known) -> Observation:
    """Neither the queue nor the accounts know it."""
    if known.status is None and known.looked_ms - known.sent_ms < known.visible_ms:
        return _seen(known, Phase.UNKNOWN, message="it was sent, and is not listed yet")
    return _seen(known, Phase.GONE)


def _living(known: Known, job: Job) -> Observation:
    phase = STATES.get(job.state)
    if known.status is None or phase is None or phase in (Phase.QUEUED, Phase.PROVISIONING):
        seen = _by_state(known, job, "")
        # A machine was given to it, and its runner has not said anything yet.
        return replace(seen, phase=Phase.PROVISIONING) if phase is Phase.RUNNING else seen
    told = _told(known, known.status)
    return told if phase is Phase.RUNNING else replace(told, phase=_later(told.phase, phase), native_state=job.state)


def _later(told: Phase, by_state: Phase) -> Phase:
    return told if told in (Phase.COLLECTING, Phase.ENDED) else by_state


def _cut_off(known: Known, job: Job) -> Observation:
    """The job is over, and its runner did not get to its last word."""
    status = known.status
    if status is not None and status.get("cause"):
        told = _told(known, status)
        problem = f"the job ended ({job.state}) before the outputs were collected"
        if told.computed:
            return replace(told, phase=Phase.ENDED, collected=True, problem=problem)
        ended = _last_word(replace(known, status={**status, "phase": causes.ENDED}), {**status, "phase": causes.ENDED})
        return replace(ended, problem=problem)
    cause, message = _reason(known, job)
    if status is None:
        return _ended(known, job, cause, message)
    told = _told(known, status)
    return replace(
        _ended(known, job, cause, message),
        incarnation=told.incarnation,
        started_ms=told.started_ms,
        phases_ms=told.phases_ms,
        evidence=(*told.evidence, *_evidence(job)),
    )


def _reason(known: Known, job: Job) -> tuple[Cause, str]:
    """Why a job is over, as far as the cluster says, and the sentence that tells it."""
    cause = CAUSES.get(job.state)
    where = f" on {job.nodes}" if job.nodes else ""
    reason = f", {job.reason}" if job.reason else ""
    said = f"the cluster says {job.state}{where}{reason}"
    if cause is Cause.STOPPED and job.reason and not known.stopped:
        # Whoever cancels a running job leaves no reason: here the cluster gave it up.
        return Cause.PROVIDER_ERROR, said
    if cause is not None:
        return cause, said
    if job.exit_code in (EXIT_NO_ORDER, EXIT_TAKEN) and known.stopped:
        return Cause.STOPPED, "stopped before it began"
    if job.exit_code == EXIT_TAKEN:
        return Cause.LOST, f"it was begun a second time, which runs nothing; the first time was lost ({said})"
    if job.signal == 9:
        return Cause.KILLED, f"{said}: its runner was killed"
    if known.status is None:
        return Cause.PROVIDER_ERROR, f"{said}: its runner said nothing"
    return Cause.UNRESOLVED, f"{said}: its runner said nothing of the end"


def _by_state(known: Known, job: Job, message: str) -> Observation:
    return _seen(known, STATES.get(job.state, Phase.UNKNOWN), job, message or _waiting(job))


def _waiting(job: Job) -> str:
    return f"waits in the queue: {job.reason}" if STATES.get(job.state) is Phase.QUEUED and job.reason else ""


def _seen(known: Known, phase: Phase, job: Job | None = None, message: str = "") -> Observation:
    return Observation(
        key=known.key,
        phase=phase,
        observed_ms=known.looked_ms,
        source=known.provider,
        native_state=job.state if job else "",
        message=message,
        created_ms=(job.submit_ms or None) if job else None,
        evidence=_evidence(job),
    )


def _ended(known: Known, job: Job | None, cause: Cause, message: str) -> Observation:
    return replace(
        _seen(known, Phase.ENDED, job, message),
        incarnation=f"job-{job.id}" if job else "",
        cause=cause,
        collected=True,
        ended_ms=job.end_ms if job else None,
    )


def _told(known: Known, status: Mapping[str, Any]) -> Observation:
    """The runner's word as an observation. Raises ``ValueError`` and its like for what no runner said."""
    if status.get("key") != known.key:
        raise ValueError("it tells of something else")
    told = runner_documents.observation(dict(status), known.provider, known.looked_ms)
    job = known.job
    created_ms = (job.submit_ms or None) if job else None
    # Only the runner's word of the end is the same for ever; until then the cluster's goes with it.
    evidence = told.evidence if told.phase is Phase.ENDED else (*told.evidence, *_evidence(job))
    return replace(told, observed_ms=known.looked_ms, created_ms=created_ms or known.sent_ms, evidence=evidence)


def _evidence(job: Job | None) -> tuple[tuple[str, str], ...]:
    if job is None:
        return ()
    words = (("job", job.id), ("job_state", job.state), ("reason", job.reason), ("nodes", job.nodes))
    return tuple((name, word) for name, word in words if word)
