"""What is true in the simulated market and no policy is told: who has capacity when, what fails, how long it takes.

On-demand and serverless prices and machines: the demonstration catalogue, without one promotional vendor (UNCLAIMED).
Spot: each spot price of the catalogue in nine zones that behave as nine recorded ones did (bench/data/spot), one trace
per zone and GPU model: windows 0 to 7, or for tuning the stretches that do not overlap them. Prices are either the same
in all zones, as while these traces were recorded, or differ by up to six times, as within one provider in public lists
(T4 4.3, L4 6.4, H100 5.9 times). Run times: quantiles of the Philly cluster (bench/data/reliability). Start-up: 2 to 4
minutes to provision, 1 to 5 to set up (Wu et al., NSDI 2024, Table 4); serverless: cold starts of 2 to 8 s and 23 s to
load a model, medians. Hardware: 6.5 failures in 1,000 node-days (Meta, 2024).

Ours, as no figures are public: how often on-demand capacity is sold out and for how long, how many starts fail, how
providers differ, and that none of it goes with the price.
"""

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.catalogue import shipped
from bench.traces.sets import WINDOWS_OF_C, nine_zone_windows
from bench.traces.tuning import disjoint_stretches
from placet.domain.offer_table import OfferTable
from placet.domain.offers import Offer
from placet.domain.spec import CapacityType
from placet.domain.values import evolve

RUN_TIMES = Path(__file__).resolve().parents[1] / "data" / "reliability" / "philly_runtime_quantiles.csv"
HOUR_S, DAY_H = 3600.0, 24.0
TICK_S = 195
HORIZON_H = 400
REFUSAL_S = 60.0
# Its prices lie far below all others; were they to be had, there would be nothing to choose.
UNCLAIMED = "dataoorts"
SAME_PRICES, DIFFERENT_PRICES = 1.0, 6.0
# Spot that would cost as much as on-demand capacity is listed a little below it.
BELOW_ON_DEMAND = 0.95
# Ours: on-demand capacity is sold out a tenth of the time in the mean, for three hours at a time.
SUPPLY_A, SUPPLY_B, SOLD_OUT_H = 9.0, 1.0, 3.0
# Ours: the share of starts that fail after having been paid for, by provider.
FAILING_A, FAILING_B = 1.0, 12.0
MACHINE_STARTUP_S, SERVERLESS_STARTUP_S = 360.0, 28.0
PROVIDERS_DIFFER, STARTS_DIFFER = 0.4, 0.5
HARDWARE_PER_HOUR = 6.5 / 1000 / DAY_H
HARDWARE_DIFFERS = 1.0
SHORTEST_S, LONGEST_S = 600.0, 24 * HOUR_S
# So many chances are drawn for each workload and offer; a policy that tries one more often meets them again.
CHANCES = 6

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One request. ``run_s`` is what it takes undisturbed, which nobody knows; ``limit_s`` is what its owner states."""

    number: int
    arrives_s: float
    gpu_count: int
    gpu_memory_gb: int
    run_s: float
    limit_s: float
    resumable: bool

    @property
    def due_s(self) -> float:
        """Twice the stated limit and half an hour after it came."""
        return self.arrives_s + 2 * self.limit_s + HOUR_S / 2


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Everything of one seed; arrays by offer unless said otherwise."""

    seed: int
    table: OfferTable
    workloads: tuple[Workload, ...]
    market: NDArray[np.intp]
    up: Bits  # by market and tick
    next_down: NDArray[np.int64]  # by market and tick: the first tick from here on without capacity
    is_spot: Bits
    failing: Floats
    startup_s: Floats
    startup_spread: float
    hardware_per_hour: Floats
    usd_per_hour: Floats
    chance_start: Floats  # by workload, offer and chance, as the next two
    chance_startup: Floats
    chance_hardware: Floats

    def available(self, offer: int, at_s: float) -> bool:
        return bool(self.up[self.market[offer], int(at_s // TICK_S)])

    def down_from_s(self, offer: int, at_s: float) -> float:
        """When spot capacity that is there now is lost."""
        return float(self.next_down[self.market[offer], int(at_s // TICK_S)] * TICK_S)


SIZES = ((1, 16, 0.25), (1, 24, 0.25), (1, 40, 0.20), (1, 80, 0.15), (4, 80, 0.10), (8, 80, 0.05))


def world(seed: int, count: int, price_ratio: float, *, tuning: bool = False) -> World:
    """The market and ``count`` workloads of two days; spot prices of a machine differ by up to ``price_ratio``."""
    rng = np.random.default_rng(seed)
    offers = _offers(rng, price_ratio)
    table = OfferTable.of(offers)
    providers = sorted({offer.provider for offer in offers})
    of_provider = np.array([providers.index(offer.provider) for offer in offers])
    names = [(offer.provider, offer.gpu.model if offer.gpu else "", offer.region) for offer in offers]
    markets = sorted(set(names))
    up = np.array([_spot(rng, zone, tuning) if zone else _supply(rng) for _, _, zone in markets])
    failing = rng.beta(FAILING_A, FAILING_B, len(providers))
    slowness = rng.lognormal(0.0, PROVIDERS_DIFFER, len(providers))
    hardware = HARDWARE_PER_HOUR * rng.lognormal(0.0, HARDWARE_DIFFERS, len(providers))
    serverless = np.array([offer.capacity_type is CapacityType.SERVERLESS for offer in offers])
    return World(
        seed=seed,
        table=table,
        workloads=_workloads(rng, count),
        market=np.array([markets.index(name) for name in names]),
        up=up,
        next_down=_next_down(up),
        is_spot=np.array([offer.capacity_type is CapacityType.SPOT for offer in offers]),
        failing=failing[of_provider],
        startup_s=np.where(serverless, SERVERLESS_STARTUP_S, MACHINE_STARTUP_S) * slowness[of_provider],
        startup_spread=STARTS_DIFFER,
        hardware_per_hour=hardware[of_provider]
        * np.array([offer.gpu.count / 8 if offer.gpu else 1 for offer in offers]),
        usd_per_hour=np.array([float(offer.price_usd_per_hour) for offer in offers]),
        chance_start=rng.random((count, len(offers), CHANCES)),
        chance_startup=rng.standard_normal((count, len(offers), CHANCES)),
        chance_hardware=rng.exponential(1.0, (count, len(offers), CHANCES)),
    )


def _workloads(rng: np.random.Generator, count: int) -> tuple[Workload, ...]:
    quantiles, run_s = _run_times()
    arrivals = np.sort(rng.uniform(0, 2 * DAY_H * HOUR_S, count))
    runs = np.clip(np.interp(rng.random(count), quantiles, run_s), SHORTEST_S, LONGEST_S)
    sizes = rng.choice(len(SIZES), count, p=[share for _, _, share in SIZES])
    slack, resumable = rng.uniform(1.2, 2.5, count), rng.random(count) < 0.5
    return tuple(
        Workload(
            number=number,
            arrives_s=float(arrivals[number]),
            gpu_count=SIZES[sizes[number]][0],
            gpu_memory_gb=SIZES[sizes[number]][1],
            run_s=float(runs[number]),
            limit_s=float(runs[number] * slack[number]),
            resumable=bool(resumable[number]),
        )
        for number in range(count)
    )


@cache
def _run_times() -> tuple[Floats, Floats]:
    with RUN_TIMES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return np.array([float(row["quantile"]) for row in rows]), np.array([float(row["runtime_s"]) for row in rows])


@cache
def _recorded(tuning: bool) -> tuple[dict[str, Bits], ...]:
    """Time-aligned traces of the nine zones."""
    windows = nine_zone_windows()
    if tuning:
        return tuple({zone: trace != 0 for zone, trace in traces.items()} for traces in disjoint_stretches(windows))
    held_out = windows[:WINDOWS_OF_C]
    return tuple({zone: np.frombuffer(up, np.uint8) != 0 for zone, up in one.zones.items()} for one in held_out)


def _ticks() -> int:
    return int(HORIZON_H * HOUR_S // TICK_S)


def _offers(rng: np.random.Generator, price_ratio: float) -> list[Offer]:
    """The catalogue, its spot offers once per zone at prices of their own; a region stands for a zone."""
    found, half = [], np.log(price_ratio) / 2
    on_demand = {_machine(offer): offer for offer in shipped() if offer.capacity_type is CapacityType.ON_DEMAND}
    for offer in shipped():
        if offer.provider == UNCLAIMED:
            continue
        if offer.capacity_type is not CapacityType.SPOT:
            found.append(offer)
            continue
        dearest = float(on_demand[_machine(offer)].price_usd_per_hour) * BELOW_ON_DEMAND
        for zone in _recorded(False)[0]:
            price = min(dearest, float(offer.price_usd_per_hour) * float(np.exp(rng.uniform(-half, half))))
            usd = Decimal(str(round(price, 4)))
            found.append(evolve(offer, id=f"{offer.id}/{zone}", region=zone, price_usd_per_hour=usd))
    return found


def _machine(offer: Offer) -> str:
    return offer.id.rsplit("/", 1)[0]


def _spot(rng: np.random.Generator, zone: str, tuning: bool) -> Bits:
    """What one zone did in some of the recorded windows, one after the other, from somewhere in the first."""
    recorded = _recorded(tuning)
    first = recorded[rng.integers(len(recorded))][zone]
    parts = [first[rng.integers(len(first)) :]]
    while sum(map(len, parts)) < _ticks():
        parts.append(recorded[rng.integers(len(recorded))][zone])
    return np.concatenate(parts)[: _ticks()]


def _supply(rng: np.random.Generator) -> Bits:
    """On-demand capacity: there and sold out in turn."""
    share = min(0.995, max(0.3, rng.beta(SUPPLY_A, SUPPLY_B)))
    there_h = SOLD_OUT_H * share / (1 - share)
    up, at, there = np.zeros(_ticks(), dtype=np.bool_), 0, bool(rng.random() < share)
    while at < len(up):
        until = at + 1 + int(rng.exponential(there_h if there else SOLD_OUT_H) * HOUR_S // TICK_S)
        up[at:until] = there
        at, there = until, not there
    return up


def _next_down(up: Bits) -> NDArray[np.int64]:
    ticks = up.shape[1]
    at = np.where(up, ticks, np.arange(ticks))
    return np.minimum.accumulate(at[:, ::-1], axis=1)[:, ::-1].astype(np.int64)
