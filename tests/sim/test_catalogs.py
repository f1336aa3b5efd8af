"""Sources of listings over hours that pass by hand: what fails is kept and said, what changes is swapped whole."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.errors import CatalogUnreadable
from placet.domain.listings import Listing
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Trust
from placet.domain.spec import CapacityType
from placet.engine.catalogs import Catalogs, Pace, Shelf, Source
from placet.engine.market import Market, OwnTerms
from placet.ports.catalog import Found
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.values import NOW_MS
from tests.support.waiting import wait_until_async
from tests.support.worlds import always

HOURLY = Pace(every_s=3600.0, within_s=10.0, stale_s=7200.0)
LISTING = Listing(
    source="one", provider="cloud", machine="big", gpu_name="L4", gpu_count=1, price_usd_per_hour=Decimal("0.70"),
    observed_ms=NOW_MS, line=1,
)  # fmt: skip


class HandClock:
    """Time that moves when a test says so; ``pauses`` are what was asked for."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.pauses: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        return NOW_MS + int(self.passed_s * 1000)

    def monotonic_s(self) -> float:
        return self.passed_s

    async def pause(self, duration_s: float) -> None:
        self.pauses.append(duration_s)
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.passed_s + duration_s, sleeper))
        await sleeper

    def pass_by(self, duration_s: float) -> None:
        self.passed_s += duration_s
        for due_s, sleeper in self._sleepers:
            if due_s <= self.passed_s and not sleeper.done():
                sleeper.set_result(None)


class ScriptedCatalog:
    """Gives one answer after the other, the last for ever; counts how often it is asked."""

    def __init__(self, name: str, *answers: Found | Exception | None) -> None:
        self.name = name
        self.asked = 0
        self._answers = list(answers)

    async def read(self, known: str = "") -> Found | None:
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nobody sets it")
        if isinstance(answer, Exception):
            raise answer
        return None if known and answer.version == known else answer


def found(*listings: Listing, **more: tuple[str, ...]) -> Found:
    return Found(listings=listings, **more)


@asynccontextmanager
async def reading(
    clock: HandClock, *catalogs: ScriptedCatalog, pace: Pace = HOURLY, chance: float = 0.5
) -> AsyncIterator[Catalogs]:
    sources = [Source(catalog=catalog, pace=pace) for catalog in catalogs]
    kept = Catalogs(sources, clock, lambda: chance)
    kept.start()
    try:
        await kept.settled(5)
        expected = 0 if pace.every_s is None else len(catalogs)
        await wait_until_async(lambda: len(clock.pauses) >= expected, 5, "every source to have been tried")
        yield kept
    finally:
        await kept.stop()


async def read_again(clock: HandClock, catalog: ScriptedCatalog, after_s: float) -> None:
    """Let time pass, and wait until the source was asked and sleeps again."""
    asked, slept = catalog.asked, len(clock.pauses)
    clock.pass_by(after_s)
    await wait_until_async(lambda: catalog.asked > asked and len(clock.pauses) > slept, 5, "another reading")


def prices(table: OfferTable) -> dict[str, float]:
    offers = [table.offer(row) for row in range(len(table))]
    return {f"{offer.price_source}:{offer.provider}": float(offer.price_usd_per_hour) for offer in offers}


def shelf_of(kept: Catalogs, name: str = "one") -> Shelf:
    return next(shelf for shelf in kept.snapshot.shelves if shelf.name == name)


async def test_a_source_is_read_at_its_pace_and_swapped_whole() -> None:
    clock = HandClock()
    dearer = replace(LISTING, price_usd_per_hour=Decimal("0.90"))
    catalog = ScriptedCatalog("one", found(LISTING), found(dearer))
    async with reading(clock, catalog) as kept:
        before = kept.snapshot
        assert prices(before.table) == {"one:cloud": 0.7}
        await read_again(clock, catalog, 3600)
        assert prices(kept.snapshot.table) == {"one:cloud": 0.9}
        assert prices(before.table) == {"one:cloud": 0.7}
        assert clock.pauses == [3600.0, 3600.0]


async def test_what_has_not_changed_is_not_made_anew() -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", replace(found(LISTING), version="1"))
    async with reading(clock, catalog) as kept:
        table = kept.snapshot.table
        await read_again(clock, catalog, 3600)
        assert kept.snapshot.table is table
        assert shelf_of(kept).read_ms == NOW_MS + 3_600_000


async def test_a_source_that_fails_keeps_what_it_gave_and_says_so() -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", found(LISTING), CatalogUnreadable("no route", fix="mend the network"))
    async with reading(clock, catalog) as kept:
        assert not shelf_of(kept).stale(clock.now_ms())
        for after_s in (3600, 30, 60):
            await read_again(clock, catalog, after_s)
        shelf = shelf_of(kept)
        assert prices(kept.snapshot.table) == {"one:cloud": 0.7}
        assert shelf.stale(clock.now_ms())
        assert (shelf.failure, shelf.fix, shelf.failures) == ("no route", "mend the network", 3)
        assert (shelf.read_ms, shelf.tried_ms) == (NOW_MS, NOW_MS + 3_690_000)
        assert clock.pauses == [3600.0, 30.0, 60.0, 120.0]


async def test_a_source_that_comes_back_is_no_longer_failing() -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", CatalogUnreadable("no route", fix="wait"), found(LISTING, warnings=("partly",)))
    async with reading(clock, catalog) as kept:
        assert (shelf_of(kept).read_ms, shelf_of(kept).stale(clock.now_ms())) == (None, True)
        await read_again(clock, catalog, 30)
        shelf = shelf_of(kept)
        assert (shelf.failure, shelf.failures, shelf.warnings, len(kept.snapshot.table)) == ("", 0, ("partly",), 1)


async def test_old_prices_are_stale_however_lately_they_were_read() -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", found(replace(LISTING, observed_ms=NOW_MS - 7_200_001)))
    async with reading(clock, catalog) as kept:
        assert shelf_of(kept).stale(clock.now_ms())


async def test_a_source_that_hangs_is_given_up_and_tried_again() -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", None, found(LISTING))
    async with reading(clock, catalog, pace=replace(HOURLY, within_s=0.01)) as kept:
        assert "no answer within 0.01 s" in shelf_of(kept).failure
        await read_again(clock, catalog, 30)
        assert prices(kept.snapshot.table) == {"one:cloud": 0.7}


async def test_a_fault_in_one_source_costs_that_source_alone() -> None:
    clock = HandClock()
    faulty = ScriptedCatalog("faulty", ZeroDivisionError("oops"))
    async with reading(clock, faulty, ScriptedCatalog("one", found(LISTING))) as kept:
        assert "a fault in Placet: ZeroDivisionError" in shelf_of(kept, "faulty").failure
        assert prices(kept.snapshot.table) == {"one:cloud": 0.7}


async def test_of_two_sources_that_list_the_same_the_earlier_counts() -> None:
    clock = HandClock()
    dearer = replace(LISTING, source="two", price_usd_per_hour=Decimal("0.90"))
    other = replace(dearer, provider="elsewhere")
    catalogs = (ScriptedCatalog("one", found(LISTING)), ScriptedCatalog("two", found(dearer, other)))
    async with reading(clock, *catalogs) as kept:
        assert prices(kept.snapshot.table) == {"one:cloud": 0.7, "two:elsewhere": 0.9}
        assert [shelf.hidden for shelf in kept.snapshot.shelves] == [0, 1]


@pytest.mark.parametrize(("chance", "pause_s"), [(0.0, 3240.0), (1.0, 3960.0)])
async def test_pauses_are_spread_by_chance(chance: float, pause_s: float) -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", found(LISTING))
    async with reading(clock, catalog, chance=chance):
        await read_again(clock, catalog, 4000)
    assert clock.pauses == pytest.approx([pause_s, pause_s])


async def test_without_sources_nothing_runs_and_nobody_waits() -> None:
    before = asyncio.all_tasks()
    kept = Catalogs([], HandClock(), lambda: 0.5)
    kept.start()
    await kept.settled(60)
    assert asyncio.all_tasks() == before
    assert len(kept.snapshot.table) == 0


async def test_what_never_changes_is_read_once() -> None:
    clock = HandClock()
    catalog = ScriptedCatalog("one", found(LISTING))
    async with reading(clock, catalog, pace=replace(HOURLY, every_s=None)) as kept:
        assert len(kept.snapshot.table) == 1
    assert (catalog.asked, clock.pauses) == (1, [])


def market(catalogs: Catalogs | None, terms: Sequence[OwnTerms] = ()) -> Market:
    return Market({"scripted": OneOffer(SystemClock(), always(Script()))}, catalogs, terms)


class OneOffer(ScriptedProvider):
    """Its offers are one value until something runs."""

    def offers(self):  # type: ignore[no-untyped-def]  # as its parent's
        if not hasattr(self, "_same"):
            self._same = super().offers()
        return self._same


async def test_dispatch_sees_providers_alone_and_people_see_everything() -> None:
    clock = HandClock()
    dearer = replace(LISTING, price_usd_per_hour=Decimal("0.90"))
    catalog = ScriptedCatalog("one", found(LISTING), found(dearer))
    async with reading(clock, catalog) as kept:
        shop = market(kept)
        assert [shop().text("id", row) for row in range(len(shop()))] == ["scripted-cpu"]
        everything = shop.everything()
        assert everything.connected.tolist() == [False, True]
        assert (shop() is shop(), shop.everything() is everything) == (True, True)
        await read_again(clock, catalog, 3600)
        assert prices(shop.everything()) == {"one:cloud": 0.9, ":scripted": 0}
        assert everything.connected.tolist() == [False, True]


def test_own_terms_make_a_providers_offer_reserved_capacity() -> None:
    terms = OwnTerms(
        provider="scripted", source="private", offers="*-cpu", price_usd_per_hour=Decimal("0.25"), compliance=("hipaa",)
    )
    offer = market(None, [terms])().offer(0)
    assert (offer.capacity_type, offer.price_usd_per_hour) == (CapacityType.RESERVED, Decimal("0.25"))
    assert (offer.trust, offer.price_source, offer.compliance) == (Trust.OWN, "private", ("hipaa",))
    assert offer.connected
    others = [replace(terms, offers="*-gpu"), replace(terms, provider="elsewhere")]
    assert market(None, others)().offer(0).capacity_type is CapacityType.ON_DEMAND
