"""Between the simulated cloud's words and ours: its card, its states, its ends, its clock. One table each."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

from placet.adapters.providers.simulated import cloud
from placet.adapters.providers.simulated.behaviour import (
    SECOND_MS,
    Look,
    Machine,
    State,
    charged_usd,
    log_of,
    look,
    written_bytes,
)
from placet.adapters.providers.simulated.options import SimulatedOptions
from placet.domain.allocations import (
    ContractCard,
    ErrorKind,
    ErrorRule,
    FoundOutput,
    Handle,
    Listed,
    LogSeal,
    Naming,
    Observation,
    Phase,
    PriceEcho,
    RateLimit,
    Stopping,
    Verb,
)
from placet.domain.failures import Cause

STREAMS = ("stdout", "stderr")
NOT_FOUND = 404
PATTERN = "*?["

# ``State.WARMING`` is missing: it plays the word that a provider has never told anybody.
STATES = (
    (State.BUILDING.value, Phase.PROVISIONING),
    (State.READY.value, Phase.AWAITING_PERMIT),
    (State.RUNNING.value, Phase.RUNNING),
    (State.INTERRUPTING.value, Phase.RUNNING),
    (State.EXITED.value, Phase.ENDED),
    (State.TIMED_OUT.value, Phase.ENDED),
    (State.START_FAILED.value, Phase.ENDED),
    (State.PREEMPTED.value, Phase.ENDED),
    (State.STOPPED.value, Phase.ENDED),
    (State.DENIED.value, Phase.ENDED),
)
CAUSES = {
    State.EXITED: Cause.EXIT_CODE,
    State.TIMED_OUT: Cause.TIMEOUT,
    State.START_FAILED: Cause.START_FAILED,
    State.PREEMPTED: Cause.PREEMPTED,
    State.STOPPED: Cause.STOPPED,
    State.DENIED: Cause.STALE_PERMIT,
}
# A 500 and a cut connection are not here on purpose: what they did is not known.
ERRORS = (
    ErrorRule(status=503, kind=ErrorKind.NO_CAPACITY, marker=cloud.NO_ROOM),
    ErrorRule(status=403, kind=ErrorKind.QUOTA, marker=cloud.NO_QUOTA),
    ErrorRule(status=429, kind=ErrorKind.RATE_LIMITED),
    ErrorRule(status=409, kind=ErrorKind.UNAVAILABLE, marker=cloud.IN_THE_MAKING),
    ErrorRule(status=409, kind=ErrorKind.INVALID_REQUEST),
)
SUBMITS = RateLimit(verb=Verb.SUBMIT, calls=50, per_s=1.0)


def card(options: SimulatedOptions, runtimes: tuple[str, ...]) -> ContractCard:
    """What the simulated provider promises. A behaviour may break it, as providers do."""
    how = options.behaviour
    return ContractCard(
        identity="unique_name",
        visibility_s=options.promised_visibility_s,
        late_create_s=options.promised_late_create_s,
        bound_to_place=False,
        lists_completely=True,
        exit_code=True,
        restarts_by_itself=how.restart_after_s is not None,
        fence=True,
        forgets_after_s=None,
        billing_quantum_s=max(row.quantum_s for row in options.rows),
        runtimes=runtimes,
        log_streams=STREAMS,
        notes=("no program is run, and no money is spent: machines, prices and outputs are made up",),
        naming=Naming(unique=True, checks_parameters=True, length_max=63, searchable=True),
        listed=Listed(paged=True, across_regions=True),
        states=STATES,
        exit_code_reliable=True,
        stopping=Stopping(refused_in=(Phase.PROVISIONING, Phase.UNKNOWN)),
        preempt_notice_s=how.preempt_notice_s or None,
        price_echo=PriceEcho.READ_BACK,
        rate_limits=(SUBMITS,),
        error_table=ERRORS,
        simulated=True,
        outputs_are_files=True,
    )


def handle(machine: Machine, provider: str) -> Handle:
    """How to address a machine."""
    order = machine.order
    made_ms = order.asked_ms + round(order.behaviour.late_create_s * SECOND_MS)
    return Handle(
        provider=provider,
        key=order.key,
        native_id=order.native_id,
        created_ms=made_ms,
        place=order.region,
        nonce=order.nonce,
        price_usd_per_hour=order.price_usd_per_hour * order.behaviour.price_factor,
    )


def gone(key: str, provider: str, now_ms: int) -> Observation:
    """What is not there."""
    return Observation(key=key, phase=Phase.GONE, observed_ms=now_ms, source=provider, native_state="404")


def observation(machine: Machine, card: ContractCard, provider: str, now_ms: int) -> Observation:
    """What the cloud said, in our words and on our clock."""
    seen = look(machine, now_ms)
    phase = card.phase(seen.state.value)
    told = _on_our_clock(_on_its_clock(seen, machine), now_ms + _offset_ms(machine), now_ms)
    if phase in (Phase.UNKNOWN, Phase.GONE):
        return Observation(
            key=machine.order.key, phase=phase, observed_ms=now_ms, source=provider, native_state=seen.state.value
        )
    how = machine.order.behaviour
    ended = phase is Phase.ENDED
    ran_out = seen.state is State.EXITED
    computed = ran_out and how.exit_code == 0
    return Observation(
        key=machine.order.key,
        phase=phase,
        observed_ms=now_ms,
        source=provider,
        native_state=seen.state.value,
        incarnation=f"{machine.order.native_id}/{seen.incarnation}",
        cause=CAUSES[seen.state] if ended and not computed else None,
        message=_message(seen, machine),
        exit_code=how.exit_code if ran_out else None,
        computed=computed,
        collected=ended,
        created_ms=told.made_ms,
        started_ms=None if seen.state is State.START_FAILED else told.started_ms,
        ended_ms=told.ended_ms,
        phases_ms=_phases(told, now_ms),
        logs=_seals(machine, now_ms) if ended else (),
        evidence=(
            ("simulated", "yes"),
            ("price_usd_per_hour", f"{machine.order.price_usd_per_hour * how.price_factor:f}"),
            ("charged_usd", f"{charged_usd(machine, now_ms):f}"),
            *seen.notes,
        ),
    )


def with_files(seen: Observation, machine: Machine, folder: Path) -> Observation:
    """The same with the outputs that the program seems to have written, which are written now."""
    found, missing = [], []
    for name, path in machine.order.files:
        place = _place(path)
        if place is None:
            missing.append(name)
            continue
        file = folder / "outputs" / machine.order.key / place
        data = _made_up(machine, name)
        if not file.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = file.with_name(file.name + ".part")
            part.write_bytes(data)
            part.replace(file)
        found.append(
            FoundOutput(
                name=name,
                path=place,
                size_bytes=len(data),
                sha256=hashlib.sha256(data).hexdigest(),
                location=str(file),
            )
        )
    return replace(seen, outputs=tuple(found), missing=tuple(missing))


def discard_files(folder: Path, key: str) -> None:
    """Delete the outputs of a machine."""
    shutil.rmtree(folder / "outputs" / key, ignore_errors=True)


def log(machine: Machine, stream: str, now_ms: int) -> tuple[bytes, int]:
    """What can be read of a stream now, and how much was written to it."""
    if stream != STREAMS[0]:
        return b"", 0
    total = written_bytes(machine, now_ms)
    lost = machine.order.behaviour.log_lost_bytes if look(machine, now_ms).over else 0
    return log_of(machine)[: max(total - lost, 0)], total


def _seals(machine: Machine, now_ms: int) -> tuple[LogSeal, ...]:
    seals = []
    for stream in STREAMS:
        text, total = log(machine, stream, now_ms)
        gaps = ((len(text), total - len(text)),) if len(text) < total else ()
        seals.append(LogSeal(stream=stream, bytes_total=total, bytes_kept=len(text), gaps=gaps))
    return tuple(seals)


def _offset_ms(machine: Machine) -> int:
    return machine.order.behaviour.clock_offset_s * SECOND_MS


def _on_its_clock(seen: Look, machine: Machine) -> Look:
    return _shifted(seen, _offset_ms(machine))


def _on_our_clock(seen: Look, its_now_ms: int, now_ms: int) -> Look:
    """Its clock need not be ours: the time that its reply bears tells how far they are apart."""
    return _shifted(seen, now_ms - its_now_ms)


def _shifted(seen: Look, by_ms: int) -> Look:
    return replace(
        seen,
        made_ms=seen.made_ms + by_ms,
        started_ms=None if seen.started_ms is None else seen.started_ms + by_ms,
        ended_ms=None if seen.ended_ms is None else seen.ended_ms + by_ms,
    )


def _message(seen: Look, machine: Machine) -> str:
    match seen.state:
        case State.EXITED if machine.order.behaviour.exit_code:
            return f"simulated: exit code {machine.order.behaviour.exit_code}"
        case State.START_FAILED:
            return "simulated: the program cannot be begun"
        case State.PREEMPTED:
            return "simulated: the machine was taken away"
        case State.STOPPED:
            return "simulated: stopped on request"
        case State.TIMED_OUT:
            return "simulated: the time limit is over"
        case State.DENIED:
            return machine.denied_why or "simulated: the permit was refused"
        case _:
            return ""


def _phases(seen: Look, now_ms: int) -> tuple[tuple[str, int], ...]:
    last_ms = now_ms if seen.ended_ms is None else seen.ended_ms
    begun_ms = last_ms if seen.started_ms is None else seen.started_ms
    phases = [("provisioning", max(begun_ms - seen.made_ms, 0))]
    if seen.started_ms is not None:
        phases.append(("running", max(last_ms - seen.started_ms, 0)))
    return tuple(phases)


def _place(path: str) -> str | None:
    """Where a file lies among the outputs; a pattern gets one file, unless it is one of a set of letters."""
    if "[" in path:
        return None
    plain = path.removeprefix("/outputs/").replace("*", "simulated").replace("?", "x")
    if plain in ("", "/outputs"):
        return "simulated.json"
    return str(PurePosixPath(plain) / "simulated.json") if plain.endswith("/") else plain


def _made_up(machine: Machine, name: str) -> bytes:
    order = machine.order
    held = {"simulated": True, "output": name, "workload_id": order.workload_id, "attempt": order.epoch}
    return (json.dumps(held, sort_keys=True) + "\n").encode()
