"""A catalogue of any size for benchmarks: the machines and prices of the demonstration catalogue, in many regions.

Machines, GPUs and list prices are real (demonstration catalogue, 2024 and 2025); regions, their price factors and the
repetition are made up from a seed. Every row has an id of its own.
"""

from functools import cache

import numpy as np

from placet.adapters.catalog.files import demonstration
from placet.domain.offer_table import NUMBERS, TEXTS, OfferTable, Words
from placet.domain.offers import Offer
from placet.domain.values import evolve
from placet.stages.listing import normalise

SEED = 20261201
REGIONS = 60
JURISDICTIONS = ("US", "EU", "EU", "UK", "SG", "")
CENT_MICRO = 100


@cache
def shipped() -> tuple[Offer, ...]:
    """The demonstration catalogue, every offer taken as if an adapter could reach it."""
    return tuple(evolve(offer, connected=True) for offer in normalise(demonstration()).offers)


def made(size: int, seed: int = SEED) -> OfferTable:
    """A table of ``size`` offers, its columns built directly."""
    base = OfferTable.of(shipped())
    rng = np.random.default_rng([seed, size])
    rows = np.arange(size) % len(base)
    region = rng.integers(REGIONS, size=size)
    words = {name: base.words[name] for name in TEXTS}
    columns = {name: getattr(base, name).take(rows) for name in (*TEXTS, *NUMBERS)}
    texts = base.words["id"].texts
    ids = [
        f"{texts[row]}/r{place}/{number}" for number, (row, place) in enumerate(zip(rows, region.tolist(), strict=True))
    ]
    words["id"] = _words(ids)
    words["region"] = _words([f"region-{place}" for place in range(REGIONS)])
    words["jurisdiction"] = _words(list(dict.fromkeys(JURISDICTIONS)))
    code_of = np.array([words["jurisdiction"].find(word) for word in JURISDICTIONS], dtype=np.int32)
    factor = rng.lognormal(0.0, 0.15, REGIONS)[region] * rng.lognormal(0.0, 0.05, size)
    price = np.rint(columns["price_micro"] * factor / CENT_MICRO).astype(np.int64) * CENT_MICRO
    columns |= {
        "id": np.arange(size, dtype=np.int32),
        "region": region.astype(np.int32),
        "jurisdiction": code_of[region % len(JURISDICTIONS)],
        "price_micro": np.maximum(price, CENT_MICRO),
    }
    return OfferTable(words=words, **columns)


def _words(texts: list[str]) -> Words:
    words = Words()
    for text in texts:
        words.code(text)
    return words
