"""From what an engine and our script say to our words. Pure: one table of states, one of causes, one of errors."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from placet.adapters.providers.container import names
from placet.adapters.providers.container.api import NotSent, Refused, Unheard
from placet.adapters.providers.container.options import ContainerOptions
from placet.adapters.refusals import provider_error
from placet.domain.allocations import (
    ContractCard,
    ErrorKind,
    ErrorRule,
    Listed,
    LogKeeping,
    Naming,
    Observation,
    Phase,
    Usage,
)
from placet.domain.errors import OutcomeUnknown, ProviderError, Unavailable
from placet.domain.failures import Cause

Json = dict[str, Any]

STREAMS = ("stdout", "stderr")
PREPARING = "preparing"
# The engine's states of a container; ``preparing`` is ours, for one that is not made yet.
STATES = (
    (PREPARING, Phase.PROVISIONING),
    ("created", Phase.AWAITING_PERMIT),
    ("configured", Phase.AWAITING_PERMIT),
    ("initialized", Phase.AWAITING_PERMIT),
    ("running", Phase.RUNNING),
    ("paused", Phase.RUNNING),
    ("stopping", Phase.STOPPING),
    ("removing", Phase.STOPPING),
    ("exited", Phase.ENDED),
    ("stopped", Phase.ENDED),
    ("dead", Phase.ENDED),
)
WAITING = tuple(word for word, phase in STATES if phase is Phase.AWAITING_PERMIT)
OVER = tuple(word for word, phase in STATES if phase is Phase.ENDED)
# Of an answer to a create; whatever else the engine says, it may have been carried out.
ERRORS = (
    ErrorRule(status=400, kind=ErrorKind.INVALID_REQUEST),
    ErrorRule(status=401, kind=ErrorKind.AUTH),
    ErrorRule(status=403, kind=ErrorKind.AUTH),
    ErrorRule(status=409, kind=ErrorKind.INVALID_REQUEST),
    ErrorRule(status=500, kind=ErrorKind.NO_CAPACITY, marker="no space left"),
    ErrorRule(status=503, kind=ErrorKind.UNAVAILABLE),
)
TELLING = frozenset({"create", "start", "die", "died", "oom", "destroy", "remove", "stop", "kill"})
KILLED = 128 + 9
SIGNALS = range(129, 129 + 64)
FILE_SIZE = 128 + 25
NO_CODE = -1
NAME_LENGTH_MAX = 200


def card(options: ContainerOptions, notes: tuple[str, ...]) -> ContractCard:
    """What an engine promises."""
    return ContractCard(
        identity="unique_name",
        visibility_s=0.0,
        # A request may wait in the engine while it is busy; after the limit of the call it is not waited for.
        late_create_s=options.call_limit_s,
        bound_to_place=True,
        lists_completely=True,
        exit_code=True,
        restarts_by_itself=False,
        fence=True,
        forgets_after_s=None,
        billing_quantum_s=1,
        runtimes=options.runtimes,
        log_streams=STREAMS,
        notes=notes,
        naming=Naming(unique=True, checks_parameters=True, length_max=NAME_LENGTH_MAX, searchable=True),
        listed=Listed(paged=False, across_regions=False),
        states=STATES,
        exit_code_reliable=True,
        error_table=ERRORS,
        two_phase_create=True,
        logs=LogKeeping(offsets=True, kept_s=None),
        outputs_are_files=False,
    )


def failed_create(error: Exception, options: ContainerOptions) -> ProviderError:
    """What a failed create means."""
    match error:
        case NotSent():
            return Unavailable(f"the engine cannot be reached: {error}", provider=options.name)
        case Refused():
            kind = card(options, ()).error_kind(error.status, error.message)
            return provider_error(kind, f"the engine says: {error.message}", provider=options.name, raw=str(error))
        case _:
            return OutcomeUnknown(f"the engine did not answer: {error}", provider=options.name)


def failed_call(error: Exception, options: ContainerOptions) -> ProviderError:
    """What any other failed call means: it may be repeated, so an unclear outcome is no more than unavailability."""
    words = "cannot be reached" if isinstance(error, NotSent | Unheard) else "says"
    return Unavailable(f"the engine {words}: {error}", provider=options.name, raw=str(error))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that is known of one attempt: what its volumes say, what the engine says of its container, what our script
    wrote. ``offset_ms`` is what our clock is ahead of the engine's.
    """

    key: str
    known: names.Known
    container: Json | None = None
    written: Mapping[str, str] | None = None
    offset_ms: int = 0

    @property
    def state(self) -> Json:
        """The engine's words about the container's state."""
        state = (self.container or {}).get("State")
        return state if isinstance(state, dict) else {}

    @property
    def native(self) -> str:
        """The engine's word for it."""
        return str(self.state.get("Status") or PREPARING)

    @property
    def over(self) -> bool:
        """Has its program ended, or will it never begin?"""
        return self.native in OVER or self.never

    @property
    def never(self) -> bool:
        """It has not begun and will not."""
        stopped = {names.Mark.REFUSED, names.Mark.STOPPED, names.Mark.FAILED} & set(self.known.marks)
        return bool(stopped) and (self.container is None or self.native in WAITING)


@dataclass(frozen=True, kw_only=True)
class End:
    """How it ended."""

    cause: Cause | None
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    computed: bool = False
    ran: bool = True


def observed(seen: Seen, source: str, now_ms: int) -> Observation:
    """What can be said at once; outputs and logs of what has ended are added by who collects them."""
    attempt = seen.known.attempt
    base = Observation(key=seen.key, phase=Phase.UNKNOWN, observed_ms=now_ms, source=source, native_state=seen.native)
    if attempt is None or names.Mark.GONE in seen.known.marks:
        return replace(base, phase=Phase.GONE)
    created_ms = names.count(attempt.get(names.CREATED))
    base = replace(base, created_ms=created_ms, incarnation=incarnation(seen))
    if seen.never:
        end = _never(seen.known)
        return replace(
            base, phase=Phase.ENDED, cause=end.cause, message=end.message, collected=True, ended_ms=created_ms
        )
    phase = dict(STATES).get(seen.native, Phase.UNKNOWN)
    if phase is Phase.RUNNING and names.Mark.STOPPED in seen.known.marks:
        phase = Phase.STOPPING
    if phase is not Phase.ENDED:
        started_ms = (
            instant_ms(seen.state.get("StartedAt"), seen.offset_ms) if phase is not Phase.AWAITING_PERMIT else None
        )
        return replace(base, phase=phase, started_ms=started_ms)
    end = ended(seen)
    started_ms = instant_ms(seen.state.get("StartedAt"), seen.offset_ms) if end.ran else None
    ended_ms = instant_ms(seen.state.get("FinishedAt"), seen.offset_ms) or created_ms
    started_ms = None if started_ms is None else max(started_ms, created_ms)
    return replace(
        base,
        phase=Phase.ENDED,
        cause=end.cause,
        message=end.message,
        exit_code=end.exit_code,
        signal=end.signal,
        computed=end.computed,
        started_ms=started_ms,
        # Of a very short program the engine tells an end that is a little before its start.
        ended_ms=max(ended_ms, started_ms or created_ms),
        usage=usage(seen.written or {}),
        evidence=_evidence(seen),
    )


def incarnation(seen: Seen) -> str:
    """What tells this run from another one of the same name."""
    return str((seen.container or {}).get("Id") or (seen.known.attempt or {}).get(names.CREATED, ""))


def _never(known: names.Known) -> End:
    for which, cause in (
        (names.Mark.FAILED, None),
        (names.Mark.REFUSED, Cause.STALE_PERMIT),
        (names.Mark.STOPPED, Cause.STOPPED),
    ):
        if which in known.marks:
            word = known.marks[which].get(names.CAUSE, "")
            stated = Cause(word) if word in set(Cause) else Cause.START_FAILED
            return End(cause=cause or stated, message=known.says(which), ran=False)
    return End(cause=Cause.UNRESOLVED, ran=False)


def ended(seen: Seen) -> End:
    """Why it ended: by what our script wrote down, else by what the engine says, which is less."""
    state, written, marks = seen.state, seen.written or {}, seen.known.marks
    if "unstarted" in written:
        return End(cause=Cause.START_FAILED, message="its program could not be begun, see stderr", ran=False)
    if state.get("Error") and not began(state):
        return End(cause=Cause.START_FAILED, message=str(state["Error"])[: names.SAYS_MAX], ran=False)
    code = names.count(written.get("code", state.get("ExitCode")), otherwise=NO_CODE)
    if code == NO_CODE:
        return End(cause=Cause.UNRESOLVED, message="it ended, and the engine tells no exit code")
    told = End(cause=None, exit_code=code, signal=code - 128 if code in SIGNALS else None)
    if written.get("late") == "1" or names.Mark.LATE in marks:
        return replace(told, cause=Cause.TIMEOUT, message="it was over its run time, and was ended")
    # Our script knows whether it was asked to stop before its program ended.
    if names.Mark.STOPPED in marks and written.get("asked", "1") == "1":
        return replace(told, cause=Cause.STOPPED, message="it was stopped on request")
    if code == 0:
        return replace(told, computed=True)
    return _failed(told, code, seen)


def _failed(told: End, code: int, seen: Seen) -> End:
    """A program that ended badly, and nobody asked it to."""
    ooms = names.count((seen.written or {}).get("oom"))
    if ooms:
        message = f"the kernel killed {ooms} of its processes for lack of memory"
        return replace(told, cause=Cause.OUT_OF_MEMORY, message=message)
    if seen.written is None and seen.state.get("OOMKilled"):
        return replace(told, cause=Cause.OUT_OF_MEMORY, message="the engine says that memory ran out")
    if code == FILE_SIZE:
        return replace(told, cause=Cause.DISK_LIMIT, message="wrote a file longer than the disk limit")
    if code == KILLED:
        return replace(told, cause=Cause.KILLED, message="killed by SIGKILL from outside; nothing proves why")
    if told.signal is not None:
        return replace(told, cause=Cause.SIGNAL, message=f"ended by signal {told.signal}")
    return replace(told, cause=Cause.EXIT_CODE, message=f"exited with code {code}")


def tells(event: Json) -> bool:
    """Is this event a reason to look?"""
    word = str(event.get("Action") or event.get("status") or "")
    return word in TELLING


def began(state: Json) -> bool:
    """Has the engine ever started it?"""
    return (instant_ms(state.get("StartedAt"), 0) or 0) > 0


def usage(written: Mapping[str, str]) -> Usage:
    """What the control group counted."""
    cpu_s = None
    if "cpu_ns" in written:
        cpu_s = int(written["cpu_ns"]) / 1e9
    elif "cpu_us" in written:
        cpu_s = int(written["cpu_us"]) / 1e6
    peak = written.get("peak", "")
    return Usage(cpu_s=cpu_s, peak_memory_bytes=int(peak) if names.is_count(peak) else None)


def words(text: bytes | None) -> dict[str, str] | None:
    """What our script wrote: a word and a value a line; ``None`` where it did not come to its end."""
    if text is None:
        return None
    pairs = [line.partition(" ") for line in text.decode("utf-8", "replace").split("\n")]
    found = {word: value.strip() for word, _, value in pairs if word}
    numbers = all(re.fullmatch(r"\d{1,20}", value, re.ASCII) for word, value in found.items() if word != "peak")
    return found if found.get("end") == "1" and numbers else None


def region(info: Json) -> str:
    """The name of the place: what is there is seen through this engine alone."""
    place = f"{info.get('Name', '')} {info.get('DockerRootDir', '')}"
    return f"engine-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def through_mounts(version: Json) -> bool:
    """Podman unpacks an archive for the root of a container below its volumes, where nobody sees it."""
    parts = version.get("Components") or []
    return not any("podman" in str(part.get("Name", "")).lower() for part in parts)


def notes(info: Json, options: ContainerOptions) -> tuple[str, ...]:
    """What this engine is, for people."""
    told = {
        "engine": info.get("ServerVersion", "unknown"),
        "control groups": f"version {info.get('CgroupVersion', 'unknown')}, {info.get('CgroupDriver', 'unknown')}",
        "storage": info.get("Driver", "unknown"),
        "disk": "limited by the storage driver" if options.disk_quota else "one file is limited, the sum is not",
        "containers survive the engine": "yes" if info.get("LiveRestoreEnabled") else "as the engine says",
        "rootless": "yes" if "name=rootless" in (info.get("SecurityOptions") or []) else "no: its socket is root",
    }
    return tuple(f"{word}: {value}" for word, value in told.items())


def instant_ms(text: object, offset_ms: int) -> int | None:
    """The engine's time by our clock; ``None`` for none and for its word for never."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", str(text or ""), re.ASCII)
    if match is None or match[1].startswith("0001"):
        return None
    try:
        moment = datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3])).astimezone(UTC)
    except (ValueError, OverflowError):
        return None  # no day of any calendar, or one beyond the last
    return int(moment.timestamp() * 1000) + int(float(match[2] or 0) * 1000) + offset_ms


def _evidence(seen: Seen) -> tuple[tuple[str, str], ...]:
    state = seen.state
    facts = {
        "container": str((seen.container or {}).get("Id", ""))[:12],
        "exit_code_of_container": str(state.get("ExitCode", "")),
        "oom_flag_of_engine": "yes" if state.get("OOMKilled") else "no",
        "told_by": "our script in the container" if seen.written is not None else "the engine alone",
    }
    if seen.written is not None:
        facts["oom_kills_in_cgroup"] = seen.written.get("oom", "unknown")
    if state.get("Error"):
        facts["error_of_engine"] = str(state["Error"])[:500]
    return tuple(facts.items())
