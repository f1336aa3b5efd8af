"""Messages to webhooks: what they say, their signatures, when they are tried again."""

import json
from dataclasses import replace

import pytest

from placet.domain.hooks import Dispatch, Hook
from placet.domain.records import Event, EventKind
from placet.domain.states import DispatchState, WorkloadState
from placet.sdk.webhooks import NotVerified, Verifier
from placet.stages import hooks as stage

ROOT = bytes(range(32))
NOW_MS = 1_800_000_000_000
HOOK = Hook(id="wh_1", tenant="t", url="https://example.org/", states=(), created_ms=0, created_by="token:x")
MOVED = Event(
    workload_id="wl_1", kind=EventKind.MOVED, at_ms=NOW_MS, actor="engine", epoch=2, seq=41, cause="exit_code",
    from_state=WorkloadState.RUNNING, to_state=WorkloadState.FAILED, message="what a program wrote",
)  # fmt: skip


def message() -> Dispatch:
    return stage.message(HOOK, MOVED, "name", NOW_MS)


def test_a_message_says_ids_and_states_and_nothing_that_a_program_wrote() -> None:
    told = json.loads(message().body)
    assert told["type"] == "workload.failed"
    assert told["data"] == {
        "workload_id": "wl_1", "name": "name", "state": "failed", "from": "running", "cause": "exit_code",
        "attempt": 2, "event": 41,
    }  # fmt: skip
    assert "what a program wrote" not in message().body


def test_only_moves_of_the_wanted_states_are_told() -> None:
    assert stage.wanted(HOOK, MOVED)
    assert stage.wanted(replace(HOOK, states=("failed", "succeeded")), MOVED)
    assert not stage.wanted(replace(HOOK, states=("succeeded",)), MOVED)
    assert not stage.wanted(HOOK, replace(MOVED, kind=EventKind.ATTEMPT_MOVED))
    assert stage.wanted(replace(HOOK, states=("accepted",)), replace(MOVED, kind=EventKind.ACCEPTED, to_state=None))


def test_one_event_has_one_id_per_hook() -> None:
    other = stage.message(replace(HOOK, id="wh_2"), MOVED, None, NOW_MS)
    assert message().id == stage.message(HOOK, MOVED, "renamed", NOW_MS + 1).id != other.id


def test_what_is_sent_is_verified_by_its_receiver() -> None:
    verifier = Verifier(stage.secret(ROOT, HOOK))
    one = message()
    sent = stage.headers(ROOT, HOOK, one, NOW_MS)
    verifier.verify(sent, one.body.encode(), now_s=NOW_MS / 1000)
    with pytest.raises(NotVerified, match="was here before"):
        verifier.verify(sent, one.body.encode(), now_s=NOW_MS / 1000)
    fresh = Verifier(stage.secret(ROOT, HOOK))
    with pytest.raises(NotVerified, match="no signature"):
        fresh.verify(sent, json.dumps(json.loads(one.body)).encode(), now_s=NOW_MS / 1000)
    with pytest.raises(NotVerified, match="too old"):
        fresh.verify(sent, one.body.encode(), now_s=NOW_MS / 1000 + 301)
    with pytest.raises(NotVerified, match="no header"):
        fresh.verify({}, one.body.encode())
    with pytest.raises(NotVerified, match="no signature"):
        Verifier(stage.secret(ROOT, replace(HOOK, id="wh_2"))).verify(sent, one.body.encode(), now_s=NOW_MS / 1000)
    with pytest.raises(ValueError, match="whsec_"):
        Verifier("whsec_?")


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The reference vector of the specification's own libraries."""
    key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    headers = {
        "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "Webhook-Timestamp": "1614265330",
        "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    Verifier(key).verify(headers, b'{"test": 2432232314}', now_s=1614265330)


def test_during_a_rotation_both_keys_sign() -> None:
    after = stage.rotated(HOOK, NOW_MS)
    one = message()
    assert stage.secret(ROOT, after) != stage.secret(ROOT, HOOK)
    for hook in (HOOK, after):
        sent = stage.headers(ROOT, after, one, NOW_MS)
        Verifier(stage.secret(ROOT, hook)).verify(sent, one.body.encode(), now_s=NOW_MS / 1000)
    late = stage.headers(ROOT, after, one, NOW_MS + stage.FORMER_KEY_MS)
    assert len(late["webhook-signature"].split()) == 1


def test_tries_are_bounded_and_further_and_further_apart() -> None:
    one, waits = message(), []
    while one.state is DispatchState.PENDING:
        before = NOW_MS if one.sent_ms is None else one.sent_ms
        one = stage.settled(one, 500, "", never=False, now_ms=before, chance=0.0)
        if one.due_ms is not None:
            waits.append((one.due_ms - before) // 1000)
    assert waits == list(stage.AGAIN_AFTER_S)
    assert (one.state, one.tries, one.due_ms) == (DispatchState.GIVEN_UP, len(waits) + 1, None)
    assert "500" in stage.reason_to_pause(one)
    again = stage.again(one, NOW_MS)
    assert (again.state, again.due_ms, again.tries, again.id) == (DispatchState.PENDING, NOW_MS, 0, one.id)


def test_jitter_only_adds() -> None:
    waits = {stage.settled(message(), None, "no", never=False, now_ms=0, chance=chance).due_ms for chance in (0.0, 1.0)}
    assert waits == {5000, 6000}


@pytest.mark.parametrize(("status", "never"), [(410, False), (None, True)])
def test_what_can_never_succeed_is_given_up_at_once(status: int | None, never: bool) -> None:
    after = stage.settled(message(), status, "it leads inside", never=never, now_ms=NOW_MS, chance=0.5)
    assert after.state is DispatchState.GIVEN_UP
    assert stage.reason_to_pause(after)


def test_what_is_taken_is_done() -> None:
    after = stage.settled(message(), 204, "", never=False, now_ms=NOW_MS, chance=0.5)
    assert (after.state, after.due_ms, after.tries) == (DispatchState.TAKEN, None, 1)
    assert stage.reason_to_pause(after) == ""
