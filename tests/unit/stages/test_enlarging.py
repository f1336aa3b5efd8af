"""What ran out of memory asks for more next time, as far as there is more, and says so."""

from dataclasses import replace
from decimal import Decimal

from placet.domain.failures import Cause, Failure
from placet.domain.lessons import NO_LESSONS, Ended, Lessons
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Fate
from placet.domain.records import Attempt
from placet.domain.spec import Constraints, Repeat, Resources, Selection, Spec
from placet.stages.dispatch import Sender, dispatch
from placet.stages.enlarging import enlarged
from placet.stages.filters import Asked
from placet.stages.lessons import remember
from placet.stages.placement import place
from placet.stages.sizing import kind_of, size
from placet.testing.conformance.store_values import new_attempt, new_workload
from tests.support.values import GPU_OFFER, NOW_MS
from tests.support.worlds import process

GIB = 2**30
SMALL = replace(GPU_OFFER, id="small", gpu=None, memory_bytes=2 * GIB, price_usd_per_hour=Decimal(1))
LARGE = replace(SMALL, id="large", provider="other", memory_bytes=16 * GIB, price_usd_per_hour=Decimal(2))
TABLE = OfferTable.of([SMALL, LARGE])
SPEC = process("train", resources=Resources(memory_bytes=2 * GIB))
OOM = Failure(cause=Cause.OUT_OF_MEMORY, message="out of memory")


def attempt(memory_bytes: int | None, epoch: int = 1, **fields: object) -> Attempt:
    made = new_attempt(new_workload(1), epoch=epoch)
    note = replace(made.placement, memory_bytes=memory_bytes)
    return replace(made, placement=note, failure=OOM, **fields)  # type: ignore[arg-type]  # fields of Attempt by name


def asked(spec: Spec = SPEC, lessons: Lessons = NO_LESSONS) -> Asked:
    return Asked(spec=spec, demand=size(spec, tenant="t", lessons=lessons), now_ms=NOW_MS)


def ended(number: int, memory_bytes: int, cause: Cause | None = None) -> Ended:
    return Ended(
        tenant="t",
        workload_id=f"wl_{number}",
        epoch=1,
        kind=kind_of(SPEC),
        offer_id="small",
        provider="p",
        region="r",
        gpu_model="",
        capacity_type="on_demand",
        created_ms=NOW_MS,
        finished_ms=NOW_MS + number,
        started_ms=NOW_MS,
        exited_ms=NOW_MS + 1000,
        computed=cause is None,
        cause=cause,
        memory_bytes=memory_bytes,
        peak_memory_bytes=memory_bytes // 2,
    )


def of_kind(*attempts: Ended, spec: Spec = SPEC) -> Asked:
    lessons = remember(NO_LESSONS, attempts)
    return enlarged(asked(spec, lessons), TABLE, history=lessons.history("t", kind_of(spec)))


def test_the_next_attempt_asks_for_half_as_much_again_and_goes_where_that_is() -> None:
    more = enlarged(asked(), TABLE, [attempt(2 * GIB)])
    assert more.demand.memory_bytes == 3 * GIB
    assert more.demand.raised in more.demand.reasons
    assert "instead of the declared" in more.demand.raised
    assert "attempt 1 ran out of memory with" in more.demand.raised
    assert place(asked(), TABLE, seed="s").ranked[0].offer.id == "small"
    plan = place(more, TABLE, seed="s")
    assert plan.ranked[0].offer.id == "large"
    sent = dispatch(new_workload(1), more.demand, plan, (), Sender(deployment="d" * 8, worker="w", nonce="n"), NOW_MS)
    assert more.demand.raised in sent.events[0].message
    assert more.demand.raised in sent.attempt.placement.reasons
    assert sent.attempt.placement.memory_bytes == 3 * GIB
    assert not sent.attempt.placement.resumes
    resumable = replace(new_workload(1), spec=replace(SPEC, repeat=Repeat.RESUMABLE))
    again = dispatch(resumable, more.demand, plan, (), Sender(deployment="d" * 8, worker="w", nonce="n"), NOW_MS)
    assert again.attempt.placement.resumes
    assert sent.launch.demand.memory_bytes == 3 * GIB


def test_it_grows_with_each_attempt_up_to_the_largest_there_is() -> None:
    seen, attempts = [], []
    for epoch in range(1, 8):
        memory_bytes = enlarged(asked(), TABLE, attempts).demand.memory_bytes or 0
        seen.append(memory_bytes)
        attempts.append(attempt(memory_bytes, epoch))
    assert seen[:3] == [2 * GIB, 3 * GIB, 9 * GIB // 2]
    assert seen[5] == 15.1875 * GIB
    assert seen[6] == 16 * GIB


def test_bounds_are_kept_and_without_anything_larger_the_reason_is_told() -> None:
    bounded = replace(SPEC, constraints=Constraints(providers=Selection(denied=("other",))))
    more = enlarged(asked(bounded), TABLE, [attempt(2 * GIB)])
    plan = place(more, TABLE, seed="s")
    assert plan.fate is Fate.NEVER
    assert dict(plan.drop_counts) == {"provider": 1, "memory": 1}
    assert more.demand.raised


def test_what_was_not_declared_is_measured() -> None:
    undeclared = process("train")
    measured = replace(attempt(None), usage=replace(attempt(None).usage, peak_memory_bytes=GIB))
    more = enlarged(asked(undeclared), TABLE, [measured])
    assert more.demand.memory_bytes == 3 * GIB // 2
    assert enlarged(asked(undeclared), TABLE, [attempt(None)]) == asked(undeclared)


def test_other_failures_and_a_larger_declaration_change_nothing() -> None:
    other = replace(attempt(2 * GIB), failure=replace(OOM, cause=Cause.KILLED))
    assert enlarged(asked(), TABLE, [other]) == asked()
    larger = replace(SPEC, resources=Resources(memory_bytes=4 * GIB))
    assert enlarged(asked(larger), TABLE, [attempt(2 * GIB)]) == asked(larger)


def test_an_equal_workload_starts_with_more() -> None:
    more = of_kind(ended(1, 2 * GIB, Cause.OUT_OF_MEMORY))
    assert more.demand.memory_bytes == 3 * GIB
    assert "an equal workload ran out of memory with" in more.demand.raised
    enough = of_kind(ended(1, 2 * GIB, Cause.OUT_OF_MEMORY), ended(2, 8 * GIB))
    assert enough.demand.memory_bytes == 8 * GIB
    assert "was enough" in enough.demand.raised


def test_a_success_with_as_little_takes_it_back() -> None:
    again = of_kind(ended(1, 2 * GIB, Cause.OUT_OF_MEMORY), ended(2, 2 * GIB))
    assert again.demand.memory_bytes == 2 * GIB
    assert again.demand.raised == ""


def test_an_equal_workload_is_never_refused_for_it() -> None:
    bounded = replace(SPEC, constraints=Constraints(providers=Selection(denied=("other",))))
    assert of_kind(ended(1, 2 * GIB, Cause.OUT_OF_MEMORY), spec=bounded).demand.memory_bytes == 2 * GIB


def test_measured_peaks_are_told() -> None:
    demand = of_kind(ended(1, 2 * GIB), ended(2, 4 * GIB)).demand
    assert any("equal workloads used at most" in reason for reason in demand.reasons)
