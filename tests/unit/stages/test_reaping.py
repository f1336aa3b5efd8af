"""What of a provider's list nobody stands for, and what of that may be deleted without being asked for."""

from dataclasses import replace
from decimal import Decimal

import pytest

from placet.domain.allocations import Handle
from placet.domain.orphans import Orphan, OrphanReason, closed, requested
from placet.domain.records import Attempt, Record
from placet.domain.states import AttemptState, OrphanState
from placet.stages.reaping import ALWAYS, LIST_AGE_MS, Listed, Reaping, Rules, reap
from placet.testing.scripted import CARD
from tests.support.values import ATTEMPT, NOW_MS, WORKLOAD

KEY = "placet-deadbeef-" + WORKLOAD.id.removeprefix("wl_") + "-1"
HANDLE = Handle(provider="somewhere", key=KEY, native_id="n1", created_ms=NOW_MS, nonce="nonce")
RUNS = replace(ATTEMPT, key=KEY, state=AttemptState.RUNNING, handle=HANDLE)
OVER = replace(RUNS, state=AttemptState.COLLECTED, released_ms=NOW_MS)
R, S = OrphanReason, OrphanState
DAY_MS = 24 * 3_600_000


def listed(*handles: Handle, attempt: Attempt | None = None, known: tuple[Orphan, ...] = ()) -> Listed:
    records = {} if attempt is None else {WORKLOAD.id: Record(workload=WORKLOAD, attempts=(attempt,))}
    return Listed(handles=handles, card=CARD, records=records, known={orphan.id: orphan for orphan in known})


def judged(seen: Listed, rules: Rules | None = None, now_ms: int = NOW_MS) -> Reaping:
    return reap(seen, rules or Rules(), now_ms=now_ms)


def only(found: Reaping) -> Orphan:
    (orphan,) = found.changed
    return orphan


@pytest.mark.parametrize("state", [AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.EXITED])
def test_what_an_attempt_stands_for_is_no_orphan(state: AttemptState) -> None:
    assert judged(listed(HANDLE, attempt=replace(RUNS, state=state))) == Reaping(changed=(), release=())


def test_an_attempt_that_waits_for_its_answer_stands_for_what_turns_up() -> None:
    assert not judged(listed(HANDLE, attempt=replace(RUNS, state=AttemptState.UNKNOWN, handle=None))).changed


def test_an_ended_attempt_releases_its_own_allocation() -> None:
    assert not judged(listed(HANDLE, attempt=replace(OVER, released_ms=None))).changed


@pytest.mark.parametrize("attempt", [OVER, replace(RUNS, state=AttemptState.REFUSED, handle=None)])
def test_what_landed_after_its_attempt_was_over_is_deleted_at_once(attempt: Attempt) -> None:
    found = judged(listed(HANDLE, attempt=attempt))
    assert only(found).reason is R.OVER
    assert only(found).price_usd_per_hour == attempt.placement.price_usd_per_hour
    assert found.release == found.changed
    assert only(found).state is S.RELEASING


def test_a_second_machine_of_one_name_is_deleted_when_it_is_seen_twice() -> None:
    twin = replace(HANDLE, native_id="n2")
    first = judged(listed(HANDLE, twin, attempt=RUNS))
    assert (only(first).reason, only(first).handle.native_id, first.release) == (R.TWIN, "n2", ())
    second = judged(listed(HANDLE, twin, attempt=RUNS, known=first.changed))
    assert [orphan.handle.native_id for orphan in second.release] == ["n2"]


def test_another_mark_is_never_touched() -> None:
    foreign = replace(HANDLE, nonce="somebody else's")
    found = judged(listed(foreign, attempt=OVER))
    for _ in range(5):
        found = judged(listed(foreign, attempt=OVER, known=found.changed), Rules(unknown=True), NOW_MS + DAY_MS)
        assert (only(found).reason, found.release) == (R.FOREIGN, ())


def test_what_nothing_is_recorded_of_is_shown_and_left_alone() -> None:
    found = judged(listed(replace(HANDLE, price_usd_per_hour=Decimal(2))))
    found = judged(listed(HANDLE, known=found.changed), now_ms=NOW_MS + DAY_MS)
    orphan = only(found)
    assert (orphan.reason, orphan.state, orphan.cost_usd, found.release) == (R.NO_RECORD, S.LISTED, Decimal(48), ())


def test_where_that_is_allowed_it_is_deleted_after_a_quarantine_and_several_looks() -> None:
    rules = Rules(unknown=True)
    first = judged(listed(HANDLE), rules)
    early = judged(listed(HANDLE, known=first.changed), rules, NOW_MS + rules.quarantine_ms)
    assert (first.release, early.release) == ((), ())
    assert judged(listed(HANDLE, known=early.changed), rules, NOW_MS + rules.quarantine_ms).release


def test_a_database_that_knows_nothing_at_all_deletes_nothing() -> None:
    rules = Rules(unknown=True)
    orphan = replace(only(judged(listed(HANDLE))), sightings=99)
    empty = replace(listed(HANDLE, known=(orphan,)), any_recorded=False)
    assert judged(empty, rules, NOW_MS + DAY_MS).release == ()


def test_only_a_share_is_begun_at_a_time_and_what_people_asked_for_always_goes() -> None:
    handles = tuple(replace(HANDLE, native_id=f"n{number}") for number in range(12))
    found = judged(listed(*handles, attempt=OVER))
    assert len(found.changed) == 12
    assert len(found.release) == ALWAYS
    asked = tuple(requested(orphan, "somebody", NOW_MS) for orphan in found.changed)
    assert len(judged(listed(*handles, attempt=OVER, known=asked)).release) == 12


def test_what_a_complete_list_does_not_show_any_more_is_gone_after_a_while() -> None:
    known = only(judged(listed(HANDLE)))
    assert judged(listed(known=(known,)), now_ms=NOW_MS + LIST_AGE_MS - 1).changed == ()
    gone = only(judged(listed(known=(known,)), now_ms=NOW_MS + LIST_AGE_MS))
    assert (gone.state, gone.closed_ms) == (S.CLOSED, NOW_MS + LIST_AGE_MS)
    assert "complete list" in gone.proof


def test_what_is_being_deleted_is_asked_for_again_until_the_provider_proves_it_gone() -> None:
    asked = requested(only(judged(listed(HANDLE))), "somebody", NOW_MS)
    found = judged(listed(known=(asked,)))
    assert (found.changed, found.release) == ((), (asked,))


def test_an_incomplete_list_proves_nothing() -> None:
    known = only(judged(listed(HANDLE)))
    partial = replace(listed(known=(known,)), card=replace(CARD, lists_completely=False))
    assert judged(partial, now_ms=NOW_MS + DAY_MS).changed == ()


def test_what_an_attempt_stands_for_again_is_closed_and_not_deleted() -> None:
    known = only(judged(listed(HANDLE)))
    found = judged(listed(HANDLE, attempt=RUNS, known=(known,)))
    assert (only(found).state, only(found).proof, found.release) == (S.CLOSED, "an attempt stands for it", ())


def test_an_old_list_opens_nothing_again_and_a_later_one_does() -> None:
    known = closed(only(judged(listed(HANDLE, attempt=OVER))), "deleted", NOW_MS)
    assert judged(listed(HANDLE, attempt=OVER, known=(known,)), now_ms=NOW_MS + LIST_AGE_MS - 1).changed == ()
    again = only(judged(listed(HANDLE, attempt=OVER, known=(known,)), now_ms=NOW_MS + LIST_AGE_MS))
    assert (again.state, again.first_seen_ms) == (S.RELEASING, NOW_MS + LIST_AGE_MS)
