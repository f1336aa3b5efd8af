"""Quotes: what they promise, when they no longer hold, and that nobody else can make one."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contract.codes import CODES
from placet.domain.forecasts import Forecast, Quantiles
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Demand, Fate, Interval, Ranked
from placet.domain.quotes import Quoted
from placet.domain.spec import Repeat
from placet.domain.states import AttemptState
from placet.stages import forecast
from placet.stages.filters import Asked, within_quote
from placet.stages.placement import place
from placet.stages.quotes import MARGIN, PREFIX, issue, judge, left, mark_of, read
from placet.stages.scores import CHECKPOINT_H
from tests.support.values import ATTEMPT, GPU_OFFER, NOW_MS, SPEC, WORKLOAD

KEY = bytes(range(32))
DIGEST = "sha256:abc"
ONE = Quantiles(p10=Decimal(1), p50=Decimal(2), p90=Decimal("3.123457"))
EXPECTED = Forecast(cost_usd=ONE, start_s=ONE, run_s=ONE, finish_s=ONE)
LATER_MS = NOW_MS + 900_000
QUOTE = issue(KEY, "tenant", DIGEST, EXPECTED, LATER_MS)


def dearer(p90: str) -> Forecast:
    return replace(EXPECTED, cost_usd=replace(ONE, p90=Decimal(p90)))


def codes(text: str, *, tenant: str = "tenant", digest: str = DIGEST, expected: Forecast | None = EXPECTED,
          now_ms: int = NOW_MS) -> list[str]:  # fmt: skip
    found = judge(read(KEY, tenant, text), digest, expected, now_ms)
    assert all(one.field == "quote" and one.code in CODES and one.what and one.why and one.fix for one in found)
    return [one.code for one in found]


def test_a_quote_is_one_short_word_and_holds_in_the_same_world() -> None:
    assert QUOTE.text.startswith(PREFIX)
    assert len(QUOTE.text) == 66
    assert QUOTE.terms.bound_usd >= ONE.p90 * MARGIN
    assert read(KEY, "tenant", QUOTE.text) == QUOTE.terms
    assert codes(QUOTE.text) == []


def test_it_falls_when_the_world_moved_beyond_it() -> None:
    assert codes(QUOTE.text, now_ms=QUOTE.terms.expires_ms) == ["quote_expired"]
    assert codes(QUOTE.text, expected=dearer(str(QUOTE.terms.bound_usd))) == []
    assert codes(QUOTE.text, expected=dearer(str(QUOTE.terms.bound_usd + Decimal("0.000001")))) == ["quote_exceeded"]
    assert codes(QUOTE.text, expected=None) == ["quote_exceeded"]
    assert codes(QUOTE.text, digest="sha256:other") == ["quote_spec_changed"]
    assert codes(QUOTE.text, tenant="somebody else") == ["bad_quote"]


@pytest.mark.parametrize(
    "text", ["", "q1_", "q1_é", PREFIX + "A" * 63, QUOTE.text[:-2], QUOTE.text + "A", QUOTE.text[3:]]
)
def test_any_other_text_is_no_quote(text: str) -> None:
    assert codes(text) == ["bad_quote"]


@given(st.integers(0, 46), st.integers(1, 255))
def test_a_changed_byte_breaks_it(place: int, change: int) -> None:
    import base64

    packed = bytearray(base64.urlsafe_b64decode(QUOTE.text[3:] + "="))
    packed[place] ^= change
    assert read(KEY, "tenant", PREFIX + base64.urlsafe_b64encode(bytes(packed)).decode().rstrip("=")) is None


@given(st.decimals(0, 10**7, places=6), st.integers(0, 2**40 - 1), st.text(max_size=20), st.text(max_size=20))
def test_what_is_read_is_what_was_issued(p90: Decimal, expires_s: int, tenant: str, digest: str) -> None:
    made = issue(KEY, tenant, digest.encode("utf-8", "replace").decode(), dearer(str(p90)), expires_s * 1000)
    assert read(KEY, tenant, made.text) == made.terms
    assert made.terms.mark == mark_of(digest.encode("utf-8", "replace").decode())
    assert p90 <= made.terms.bound_usd <= p90 * MARGIN + Decimal("0.000001")


def test_what_costs_nothing_may_cost_nothing_later() -> None:
    free = issue(KEY, "tenant", DIGEST, dearer("0"), LATER_MS)
    assert codes(free.text, expected=dearer("0")) == []
    assert codes(free.text, expected=dearer("0.01")) == ["quote_exceeded"]


HOUR_MS = 3_600_000
OFFER = replace(GPU_OFFER, price_usd_per_hour=Decimal(2), startup_s=Decimal(0))
TABLE = OfferTable.of([OFFER, replace(OFFER, id="dearer", price_usd_per_hour=Decimal(3))])


def hours(low: float, likely: float, high: float) -> Interval:
    low_s, likely_s, high_s = (Decimal(str(part)) * 3600 for part in (low, likely, high))
    return Interval(low=low_s, likely=likely_s, high=high_s)


def asked(left_usd: str, **demand: object) -> Asked:
    quoted = Quoted(bound_usd=Decimal(5), left_usd=Decimal(left_usd))
    return Asked(spec=SPEC, demand=Demand(**demand), now_ms=NOW_MS, quoted=quoted)  # type: ignore[arg-type]  # by name


def test_what_all_attempts_cost_is_taken_off_the_bound() -> None:
    assert left(WORKLOAD, (), NOW_MS) is None
    quoted = replace(WORKLOAD, quoted_usd=Decimal(5))
    over = replace(ATTEMPT, state=AttemptState.COLLECTED, cost_usd=Decimal("1.5"))
    live = replace(ATTEMPT, epoch=2, state=AttemptState.RUNNING, started_ms=NOW_MS)
    found = left(quoted, (over, live), NOW_MS + HOUR_MS // 2)
    assert found == Quoted(bound_usd=Decimal(5), left_usd=Decimal("1.7"))  # the one that runs costs 3.60 an hour
    goes_on = replace(quoted, spec=replace(SPEC, repeat=Repeat.RESUMABLE))
    done = left(goes_on, (replace(over, started_ms=NOW_MS, exited_ms=NOW_MS + HOUR_MS),), NOW_MS + HOUR_MS)
    assert done is not None
    assert done.done_s == pytest.approx(3600 * (1 - CHECKPOINT_H))


def test_a_placement_stays_within_what_is_left_and_says_so_first() -> None:
    run = {"runtime_s": hours(0, 1, 1)}
    assert [one.offer.id for one in place(asked("4", **run), TABLE, seed="").ranked] == ["large", "dearer"]
    assert [one.offer.id for one in place(asked("2", **run), TABLE, seed="").ranked] == ["large"]
    full = OfferTable.of([OFFER, replace(OFFER, id="full", free=replace(OFFER.free, slots=0))])
    waits = place(asked("1.99", **run), full, seed="")
    assert (waits.fate, dict(waits.drop_counts)) == (Fate.NOT_NOW, {"quote": 2})
    assert waits.reason.startswith("large: one more run may cost $2.00, of the quote of $5.00 $1.99 is left")
    spent = place(asked("0", **run), TABLE, seed="")
    assert (spent.fate, dict(spent.drop_counts)) == (Fate.NEVER, {"quote_spent": 2})
    free = OfferTable.of([OFFER, replace(OFFER, id="own", price_usd_per_hour=Decimal(0))])
    assert [one.offer.id for one in place(asked("-3", **run), free, seed="").ranked] == ["own"]


def test_what_was_done_is_not_paid_for_again() -> None:
    more = asked("1.2", usual_s=hours(0.5, 0.9, 1))
    assert place(more, TABLE, seed="").fate is Fate.NOT_NOW
    assert more.quoted is not None
    done = replace(more, quoted=replace(more.quoted, done_s=1800.0))
    assert [one.offer.id for one in place(done, TABLE, seed="").ranked] == ["large"]


@given(
    st.lists(st.integers(1, 10**6), min_size=3, max_size=3).map(sorted),
    st.booleans(),
    st.booleans(),
    st.integers(0, 10**7),
    st.sampled_from([1, 60, 3600]),
    st.sampled_from(["0", "0.5"]),
)
def test_no_workload_is_kept_waiting_by_the_quote_it_was_just_given(
    run_s: list[int], limited: bool, known: bool, price_micro: int, quantum_s: int, least: str
) -> None:
    run = Interval(low=Decimal(run_s[0]), likely=Decimal(run_s[1]), high=Decimal(run_s[2]))
    demand = Demand(runtime_s=run if limited else None, usual_s=run if known else None)
    offer = replace(
        OFFER,
        price_usd_per_hour=Decimal(price_micro) / 10**6,
        billing_quantum_s=quantum_s,
        minimum_charge_usd=Decimal(least),
    )
    table = OfferTable.of([offer])
    best = place(Asked(spec=SPEC, demand=demand, now_ms=NOW_MS), table, seed="").ranked[0]
    assert isinstance(best, Ranked)
    expected = forecast.forecast(best, demand, SPEC.repeat)
    assert expected is not None
    bound_usd = issue(KEY, "tenant", DIGEST, expected, LATER_MS).terms.bound_usd
    quoted = Quoted(bound_usd=bound_usd, left_usd=bound_usd)
    passed = within_quote(Asked(spec=SPEC, demand=demand, now_ms=NOW_MS, quoted=quoted), table)
    assert passed is not None
    assert passed.all()
