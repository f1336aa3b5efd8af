"""The protocol of submit, cancel and release, searched whole in the small; and with one of its rules broken, found out.

``SEARCH_TICKS`` looks further ahead: with 5, some ninety thousand states.
"""

import os
from dataclasses import replace

import pytest

from placet.domain.errors import NoCapacity
from placet.engine.decide import decide
from placet.engine.facts import Fact, Situation, Step, SubmitAnswer
from placet.stages import tracking
from tests.support.protocol import TRUE_CARD, Protocol, Violation, search

TICKS = int(os.environ.get("SEARCH_TICKS", "2"))
BLIND_CARD = replace(TRUE_CARD, late_create_s=0.0, visibility_s=0.0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_order_of_events_with_one_fault_leads_to_anything_wrong() -> None:
    found = search(Protocol(ticks=TICKS))
    print(found)  # noqa: T201 - how much was searched
    assert found.states > 5_000
    assert found.succeeded > 500
    assert found.cancelled > 500


def unclear_is_refused(situation: Situation) -> Step:
    """Whoever gets no answer takes it for a no, and tries again."""

    def believed(fact: Fact) -> Fact:
        if isinstance(fact, SubmitAnswer) and fact.unclear:
            return replace(fact, error=NoCapacity("no answer is a no"), unclear=False)
        return fact

    return decide(replace(situation, facts=tuple(map(believed, situation.facts))))


def test_a_retry_after_no_answer_is_found_out() -> None:
    with pytest.raises(Violation, match="a later attempt is begun while an earlier") as told:
        search(Protocol(rule=unclear_is_refused, ticks=TICKS))
    assert len(str(told.value).split(" > ")) < 12


def test_absence_at_the_first_look_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "ABSENT_READS", 1)
    with pytest.raises(Violation, match="a later attempt is begun while an earlier") as told:
        search(Protocol(card=BLIND_CARD, ticks=TICKS))
    assert len(str(told.value).split(" > ")) < 12


def test_what_is_sent_before_it_is_written_is_found_out() -> None:
    with pytest.raises(Violation, match="an allocation exists that no row tells of"):
        search(Protocol(sent_first=True, ticks=TICKS))
