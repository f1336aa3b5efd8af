"""Messages to webhooks: what they say, how they are signed, when they are tried again, when an address is left alone.

Signatures follow Standard Webhooks 1.0: ``v1,`` and the base64 of HMAC-SHA256 over ``id.timestamp.body``.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime

from placet.domain.hooks import Dispatch, Hook
from placet.domain.records import Event, EventKind
from placet.domain.states import DISPATCH_MOVES, DispatchState, WorkloadState, advance
from placet.domain.values import evolve

PREFIX = "whsec_"
# After the first try, each with up to a fifth more.
AGAIN_AFTER_S = (5, 300, 1800, 7200, 18_000, 36_000, 36_000)
JITTER = 0.2
FORMER_KEY_MS = 24 * 3_600_000
GONE = 410
SUCCESS = range(200, 300)
TOLD = (EventKind.ACCEPTED, EventKind.MOVED)
TEST_KIND = "test"
EVERY_STATE = tuple(state.value for state in WorkloadState)


def kind_of(event: Event) -> str:
    """The type of the message: ``workload.`` and the state that it came to."""
    return f"workload.{event.to_state or WorkloadState.ACCEPTED}"


def wanted(hook: Hook, event: Event) -> bool:
    """Does the hook hear of this event?"""
    return event.kind in TOLD and (event.to_state or WorkloadState.ACCEPTED) in (hook.states or EVERY_STATE)


def message(hook: Hook, event: Event, name: str | None, now_ms: int) -> Dispatch:
    """What is told of an event: ids and states, nothing that a program or a stranger wrote."""
    told = {
        "workload_id": event.workload_id,
        "name": name,
        "state": event.to_state or WorkloadState.ACCEPTED,
        "from": event.from_state,
        "cause": event.cause,
        "attempt": event.epoch,
        "event": event.seq,
    }
    body = {"type": kind_of(event), "timestamp": _instant(event.at_ms), "data": told}
    return Dispatch(
        hook_id=hook.id,
        seq=event.seq,
        workload_id=event.workload_id,
        kind=kind_of(event),
        body=json.dumps(body, separators=(",", ":")),
        created_ms=now_ms,
        state=DispatchState.PENDING,
        due_ms=now_ms,
    )


def test_message(hook: Hook, number: int, now_ms: int) -> Dispatch:
    """A message that tells of nothing; ``number`` is negative, as no event's is."""
    body = {"type": TEST_KIND, "timestamp": _instant(now_ms), "data": {"webhook_id": hook.id}}
    return Dispatch(
        hook_id=hook.id,
        seq=number,
        workload_id="",
        kind=TEST_KIND,
        body=json.dumps(body, separators=(",", ":")),
        created_ms=now_ms,
        state=DispatchState.PENDING,
        due_ms=now_ms,
    )


def secret(root: bytes, hook: Hook, generation: int | None = None) -> str:
    """The signing key as its owner gets it. It is derived from a secret of the deployment and kept nowhere."""
    return PREFIX + base64.b64encode(_key(root, hook, generation or hook.generation)).decode()


def headers(root: bytes, hook: Hook, dispatch: Dispatch, now_ms: int) -> Mapping[str, str]:
    """What is sent beside the body; during a rotation both keys sign."""
    generations = [hook.generation]
    if hook.former_until_ms is not None and now_ms < hook.former_until_ms:
        generations.append(hook.generation - 1)
    stamp = str(now_ms // 1000)
    signed = f"{dispatch.id}.{stamp}.{dispatch.body}".encode()
    return {
        "content-type": "application/json",
        "user-agent": "placet",
        "webhook-id": dispatch.id,
        "webhook-timestamp": stamp,
        "webhook-signature": " ".join(_signature(_key(root, hook, one), signed) for one in generations),
    }


def settled(
    dispatch: Dispatch, status: int | None, problem: str, *, never: bool, now_ms: int, chance: float
) -> Dispatch:
    """The message after one try. ``chance`` is between 0 and 1."""
    tries = dispatch.tries + 1
    after = evolve(dispatch, tries=tries, sent_ms=now_ms, status=status, problem=problem)
    if status is not None and status in SUCCESS:
        state = advance(DISPATCH_MOVES, dispatch.state, DispatchState.TAKEN)
        return evolve(after, state=state, due_ms=None, problem="")
    if never or status == GONE or tries > len(AGAIN_AFTER_S):
        return evolve(after, state=advance(DISPATCH_MOVES, dispatch.state, DispatchState.GIVEN_UP), due_ms=None)
    wait_s = AGAIN_AFTER_S[tries - 1] * (1 + JITTER * chance)
    return evolve(after, due_ms=now_ms + round(wait_s * 1000))


def again(dispatch: Dispatch, now_ms: int) -> Dispatch:
    """To be sent once more, with all its tries before it."""
    if dispatch.state is DispatchState.PENDING:
        return evolve(dispatch, due_ms=now_ms)
    state = advance(DISPATCH_MOVES, dispatch.state, DispatchState.PENDING)
    return evolve(dispatch, state=state, due_ms=now_ms, tries=0)


def reason_to_pause(dispatch: Dispatch) -> str:
    """Why nothing more is sent to its address, once this message is given up; empty when there is no reason."""
    if dispatch.state is not DispatchState.GIVEN_UP:
        return ""
    if dispatch.status == GONE:
        return "it answered 410: gone for good"
    last = dispatch.problem or f"the last answer was {dispatch.status}"
    return f"message {dispatch.id} was not taken in {dispatch.tries} tries: {last}"


def paused(hook: Hook, why: str, now_ms: int) -> Hook:
    """Nothing is sent to it until somebody resumes it; its messages wait."""
    return evolve(hook, paused_ms=now_ms, paused_why=why)


def resumed(hook: Hook) -> Hook:
    """What waits is sent."""
    return evolve(hook, paused_ms=None, paused_why="")


def rotated(hook: Hook, now_ms: int) -> Hook:
    """A new signing key; the one before it signs too for a day."""
    return evolve(hook, generation=hook.generation + 1, former_until_ms=now_ms + FORMER_KEY_MS)


def _key(root: bytes, hook: Hook, generation: int) -> bytes:
    return hmac.digest(root, f"{hook.id}.{generation}".encode(), "sha256")


def _signature(key: bytes, signed: bytes) -> str:
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
