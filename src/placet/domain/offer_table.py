"""Offers as columns: one immutable snapshot over which a hundred thousand offers are filtered in a millisecond.

A row is an offer. A number that is not known is NaN. A text is a code into the words of its column. Money is kept in
whole millionths of a US dollar, so that a row gives back the exact price it was made from.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placet.domain.offers import Availability, Free, Gpu, Offer, Trust
from placet.domain.spec import CapacityType
from placet.domain.values import evolve

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Codes = NDArray[np.int32]
Short = NDArray[np.int16]
Bits = NDArray[np.bool_]

FEW_WORDS = 3
SHORT_MAX = 2**15 - 1
# How many offers a snapshot keeps as values, beside its columns.
OFFERS_KEPT = 4096
FEW_OFFERS = 64
NO_HASHES = np.array([], dtype=np.uint64)
MICRO = Decimal(1_000_000)


class Words:
    """The distinct texts of one column."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._known_hashes = NO_HASHES

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Words":
        """These words, each once, in their order."""
        words = cls()
        words.texts = list(dict.fromkeys(texts))
        words._codes = dict(zip(words.texts, range(len(words.texts)), strict=True))
        return words

    @classmethod
    def numbered(cls, codes: "dict[Any, int]") -> "Words":
        """These words with codes that count from 0 in their order; the words keep the mapping."""
        words = cls()
        words.texts, words._codes = list(codes), codes
        return words

    def code(self, text: str) -> int:
        """The code of a text, a new one if need be. Only for building a table."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def find(self, text: str) -> int | None:
        """The code of a text that occurs."""
        return self._codes.get(text)

    def copy(self) -> "Words":
        """The same words, to be added to. Numbers that were made already are not made again."""
        new = Words()
        new.texts, new._codes = self.texts.copy(), self._codes.copy()
        new._known_hashes = self.__dict__.get("hashes", self._known_hashes)
        return new

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """A number per word, the same in every table. Only once the table is built."""
        more = [_hash(text) for text in self.texts[len(self._known_hashes) :]]
        return np.concatenate([self._known_hashes, np.array(more, dtype=np.uint64)])


@dataclass(frozen=True, kw_only=True, eq=False)
class OfferTable:
    """One snapshot. Of texts that an offer has several of, the whole list is one word, joined by line ends."""

    words: Mapping[str, Words]
    id: Codes
    provider: Codes
    region: Codes
    jurisdiction: Codes
    compliance: Codes
    runtimes: Codes
    capacity_type: Codes
    cpu_cores: Numbers
    memory_bytes: Numbers
    disk_bytes: Numbers
    gpu_model: Codes
    gpu_count: Whole
    gpu_memory_bytes: Numbers
    gpu_architecture: Codes
    gpu_interconnect: Codes
    gpu_capability: Codes
    gpu_features: Codes
    gpu_driver: Codes
    gpu_cuda: Codes
    nodes_max: Whole
    price_micro: Whole
    minimum_charge_micro: Whole
    billing_quantum_s: Whole
    startup_s: Numbers
    startup_p90_s: Numbers
    reliability: Numbers
    availability: Codes
    free_slots: Numbers
    free_cpu_cores: Numbers
    free_memory_bytes: Numbers
    free_gpus: Numbers
    observed_ms: Whole
    preemptible: Bits
    may_rerun: Bits
    connected: Bits
    trust: Codes
    price_source: Codes
    priced_ms: Whole
    availability_ms: Whole
    simulated: Bits
    by_name_only: Bits

    def __len__(self) -> int:
        rows = self.__dict__.get("_rows")
        return len(self.id if rows is None else rows)

    @classmethod
    def of(cls, offers: Sequence[Offer]) -> "OfferTable":
        """The table of some offers; a large catalogue may build its columns directly."""
        values = _read(offers)
        words: dict[str, Words] = {}
        columns: dict[str, NDArray[np.generic]] = {}
        for name, path in TEXTS.items():
            words[name], columns[name] = _coded(values[path])
        for name, (dtype, path) in NUMBERS.items():
            amounts = _micros(values[path]) if name in MONEY else values[path]
            columns[name] = np.array(amounts, dtype=dtype)
        table = cls(words=words, **columns)  # type: ignore[arg-type]  # the names are checked by a test
        if len(offers) <= FEW_OFFERS:
            table.derived["offers"] = dict(enumerate(offers))
        return table

    def joined(self, more: "OfferTable") -> "OfferTable":
        """These offers and ``more``; of two with one id the one here is left out. Costs a copy, not a rebuild."""
        if not len(more):
            return self
        fresh = more.id_texts()
        repeated = self.judged("id", lambda text: text in fresh)
        kept = self.take(np.flatnonzero(~repeated)) if repeated.any() else self
        words = {name: self.words[name].copy() for name in TEXTS}
        columns: dict[str, NDArray[np.generic]] = {}
        for name in TEXTS:
            codes = np.array([words[name].code(text) for text in more.words[name].texts], dtype=np.int32)
            columns[name] = np.concatenate([getattr(kept, name), codes.take(getattr(more, name))])
        for name in NUMBERS:
            columns[name] = np.concatenate([getattr(kept, name), getattr(more, name)])
        return OfferTable(words=words, **columns)  # type: ignore[arg-type]  # the names are checked by a test

    def id_texts(self) -> frozenset[str]:
        """The ids of all rows."""
        texts = self.words["id"].texts
        return frozenset(texts[code] for code in self.id.tolist())

    def text(self, column: str, row: int) -> str:
        """The text of one cell."""
        code: int = getattr(self, column)[row]
        return self.words[column].texts[code]

    def judged(self, column: str, accept: Callable[[str], bool]) -> Bits:
        """Judge each distinct word of a column once, and give every row its word's judgement."""
        judged = [accept(text) for text in self.words[column].texts]
        good = judged.count(True)
        if good == 0 or good == len(judged):
            return np.full(len(self), good > 0, dtype=np.bool_)
        codes: Codes = getattr(self, column)
        if min(good, len(judged) - good) > FEW_WORDS:
            return np.array(judged, dtype=np.bool_).take(codes)
        # Comparing with a few codes is far quicker than looking every row up.
        outcome = good <= len(judged) - good
        few = [code for code, verdict in enumerate(judged) if verdict is outcome]
        rows: Bits = codes == few[0]
        for code in few[1:]:
            rows |= codes == code
        return rows if outcome else ~rows

    def ranked(self, column: str) -> tuple[Numbers, Whole | Short]:
        """The distinct numbers of a column in order, what is not known last, and the place of each row's number among
        them, made once: a comparison of these is several times as quick. Not for what is free."""
        source = self.__dict__.get("_source")
        if source is not None:
            amounts, ranks = source.ranked(column)
            return amounts, ranks.take(self.__dict__["_rows"])
        name = f"ranks of {column}"
        known: tuple[Numbers, Whole | Short] | None = self.derived.get(name)
        if known is None:
            amounts, ranks = np.unique(getattr(self, column), return_inverse=True)
            known = self.derived[name] = (amounts, ranks.astype(np.int16) if len(amounts) <= SHORT_MAX else ranks)
        return known

    def worked(self, name: str, make: "Callable[[OfferTable], NDArray[Any]]") -> NDArray[Any]:
        """A column that is worked out from others, made once for the whole snapshot. Not for what is free."""
        source = self.__dict__.get("_source")
        if source is not None:
            taken: NDArray[Any] = source.worked(name, make).take(self.__dict__["_rows"])
            return taken
        known: NDArray[Any] | None = self.derived.get(name)
        if known is None:
            known = self.derived[name] = make(self)
        return known

    def offer(self, row: int) -> Offer:
        """The offer of one row, as it was given."""
        source = self.__dict__.get("_source")
        if source is not None:
            offer: Offer = source.offer(int(self.__dict__["_rows"][row]))
            return offer
        kept: dict[int, Offer] = self.derived.setdefault("offers", {})
        known = kept.get(row)
        if known is None:
            if len(kept) >= OFFERS_KEPT:
                kept.clear()
            known = kept[row] = self._made(row)
        return known if self.__dict__.get("_free_as_given", True) else evolve(known, free=self._free(row))

    def _made(self, row: int) -> Offer:
        reliability = self.reliability.item(row)
        return Offer(
            id=self.text("id", row),
            provider=self.text("provider", row),
            region=self.text("region", row),
            jurisdiction=self.text("jurisdiction", row),
            compliance=split(self.text("compliance", row)),
            runtimes=split(self.text("runtimes", row)),
            capacity_type=CapacityType(self.text("capacity_type", row)),
            cpu_cores=_exact(self.cpu_cores.item(row)),
            memory_bytes=int(self.memory_bytes.item(row)),
            disk_bytes=_whole(self.disk_bytes.item(row)),
            gpu=self._gpu(row),
            nodes_max=self.nodes_max.item(row),
            price_usd_per_hour=_money(self.price_micro.item(row)),
            minimum_charge_usd=_money(self.minimum_charge_micro.item(row)),
            billing_quantum_s=self.billing_quantum_s.item(row),
            startup_s=_exact(self.startup_s.item(row)),
            startup_p90_s=_decimal(self.startup_p90_s.item(row)),
            reliability=None if math.isnan(reliability) else reliability,
            availability=Availability(self.text("availability", row)),
            free=self._free(row),
            observed_ms=self.observed_ms.item(row),
            preemptible=self.preemptible.item(row),
            may_rerun=self.may_rerun.item(row),
            connected=self.connected.item(row),
            trust=Trust(self.text("trust", row)),
            price_source=self.text("price_source", row),
            priced_ms=self.priced_ms.item(row),
            availability_ms=self.availability_ms.item(row),
            simulated=self.simulated.item(row),
            by_name_only=self.by_name_only.item(row),
        )

    def _gpu(self, row: int) -> Gpu | None:
        count: int = self.gpu_count.item(row)
        if count == 0:
            return None
        return Gpu(
            model=self.text("gpu_model", row),
            count=count,
            memory_bytes=int(self.gpu_memory_bytes.item(row)),
            architecture=self.text("gpu_architecture", row),
            interconnect=self.text("gpu_interconnect", row),
            compute_capability=self.text("gpu_capability", row) or None,
            features=split(self.text("gpu_features", row)),
            driver_version=self.text("gpu_driver", row) or None,
            cuda_version=self.text("gpu_cuda", row) or None,
        )

    def _free(self, row: int) -> Free:
        return Free(
            slots=_whole(self.free_slots.item(row)),
            cpu_cores=_decimal(self.free_cpu_cores.item(row)),
            memory_bytes=_whole(self.free_memory_bytes.item(row)),
            gpus=_whole(self.free_gpus.item(row)),
        )

    def open_to(self, named: Sequence[str]) -> "OfferTable":
        """What there is for who names these providers; offers of others that want to be named are not there at all."""
        if not self._some_by_name:
            return self
        rows = ~self.by_name_only | self.judged("provider", lambda name: name in named)
        return self if rows.all() else self.take(np.flatnonzero(rows))

    @cached_property
    def _some_by_name(self) -> bool:
        return bool(self.by_name_only.any())

    @cached_property
    def free_known(self) -> frozenset[str]:
        """The ``free_`` columns in which anything is known; lists of prices know nothing of them."""
        return frozenset(name for name in FREE if not np.isnan(getattr(self, name)).all())

    @cached_property
    def slots_left(self) -> int | None:
        """How many more workloads all places together have slots for; ``None`` if one does not say. The offers of a
        place share its slots."""
        if np.isnan(self.free_slots).any():
            return None
        of_place: dict[tuple[int, int], float] = {}
        for place in zip(self.provider.tolist(), self.region.tolist(), self.free_slots.tolist(), strict=True):
            of_place[place[:2]] = max(of_place.get(place[:2], 0.0), place[2])
        return int(sum(of_place.values()))

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What was worked out from this snapshot, by name, for whoever asks next. Nothing here may depend on the free
        capacity: the tables that ``with_free`` makes share it."""
        return {}

    @cached_property
    def of_words(self) -> dict[str, Any]:
        """The same for what depends on the words alone: the tables that ``take`` makes share it too."""
        return {}

    def row_of(self, offer_id: str) -> int | None:
        """The row of an offer by its id."""
        code = self.words["id"].find(offer_id)
        if code is None:
            return None
        rows = np.flatnonzero(self.id == code)
        return int(rows[0]) if len(rows) else None

    @property
    def id_hash(self) -> NDArray[np.uint64]:
        """A number per row that depends on the offer's id alone."""
        hashed: NDArray[np.uint64] = self.words["id"].hashes.take(self.id)
        return hashed

    @cached_property
    def places(self) -> frozenset[tuple[str, str]]:
        """Every (provider, region) with an offer."""
        rows = range(len(self))
        return frozenset((self.text("provider", row), self.text("region", row)) for row in rows)

    def take(self, rows: NDArray[np.intp]) -> "OfferTable":
        """Some of the offers, in the order of ``rows``; a column is copied when it is first asked for."""
        some = object.__new__(OfferTable)
        some.__dict__.update(words=self.words, of_words=self.of_words, _source=self, _rows=rows)
        return some

    def __getattr__(self, name: str) -> NDArray[np.generic]:
        """A column of a table made by ``take`` that nobody asked for yet."""
        source = self.__dict__.get("_source")
        if source is None or (name not in TEXTS and name not in NUMBERS):
            raise AttributeError(name)
        column: NDArray[np.generic] = getattr(source, name).take(self.__dict__["_rows"])
        self.__dict__[name] = column
        return column

    def with_free(self, columns: Mapping[str, Numbers]) -> "OfferTable":
        """The same offers with other free capacity; ``columns`` are some of the ``free_`` columns."""
        changed = evolve(self, **columns)
        # Asked for here, so that both tables hold the same one.
        changed.__dict__.update(derived=self.derived, of_words=self.of_words, _free_as_given=False)
        for name in ("free_known", "slots_left"):
            changed.__dict__.pop(name, None)
        return changed


FREE = ("free_slots", "free_cpu_cores", "free_memory_bytes", "free_gpus")
NO_GPU = Gpu(model="", count=0, memory_bytes=0)
# Where each column of texts stands in an offer.
TEXTS: Mapping[str, str] = {
    "id": "id",
    "provider": "provider",
    "region": "region",
    "jurisdiction": "jurisdiction",
    "compliance": "compliance",
    "runtimes": "runtimes",
    "capacity_type": "capacity_type",
    "gpu_model": "gpu.model",
    "gpu_architecture": "gpu.architecture",
    "gpu_interconnect": "gpu.interconnect",
    "gpu_capability": "gpu.compute_capability",
    "gpu_features": "gpu.features",
    "gpu_driver": "gpu.driver_version",
    "gpu_cuda": "gpu.cuda_version",
    "availability": "availability",
    "trust": "trust",
    "price_source": "price_source",
}
# Where each column of numbers stands, and as what it is kept; what is not known becomes NaN.
NUMBERS: Mapping[str, tuple[type[np.generic], str]] = {
    "cpu_cores": (np.float64, "cpu_cores"),
    "memory_bytes": (np.float64, "memory_bytes"),
    "disk_bytes": (np.float64, "disk_bytes"),
    "gpu_count": (np.int64, "gpu.count"),
    "gpu_memory_bytes": (np.float64, "gpu.memory_bytes"),
    "nodes_max": (np.int64, "nodes_max"),
    "price_micro": (np.int64, "price_usd_per_hour"),
    "minimum_charge_micro": (np.int64, "minimum_charge_usd"),
    "billing_quantum_s": (np.int64, "billing_quantum_s"),
    "startup_s": (np.float64, "startup_s"),
    "startup_p90_s": (np.float64, "startup_p90_s"),
    "reliability": (np.float64, "reliability"),
    "free_slots": (np.float64, "free.slots"),
    "free_cpu_cores": (np.float64, "free.cpu_cores"),
    "free_memory_bytes": (np.float64, "free.memory_bytes"),
    "free_gpus": (np.float64, "free.gpus"),
    "observed_ms": (np.int64, "observed_ms"),
    "preemptible": (np.bool_, "preemptible"),
    "may_rerun": (np.bool_, "may_rerun"),
    "connected": (np.bool_, "connected"),
    "priced_ms": (np.int64, "priced_ms"),
    "availability_ms": (np.int64, "availability_ms"),
    "simulated": (np.bool_, "simulated"),
    "by_name_only": (np.bool_, "by_name_only"),
}
MONEY = frozenset({"price_micro", "minimum_charge_micro"})


def _paths(part: str) -> tuple[str, ...]:
    paths = dict.fromkeys((*TEXTS.values(), *(path for _, path in NUMBERS.values())))
    return tuple(path for path in paths if path.rpartition(".")[0] == part)


# What is read of an offer, of its GPU, and of what is free of it: all at once, which is far quicker than one by one.
READ = {part: _paths(part) for part in ("", "gpu", "free")}
READERS = {part: attrgetter(*(path.rpartition(".")[2] for path in paths)) for part, paths in READ.items()}
# So many offers at a time stay in the processor's caches, and make no work for the collector of garbage.
READ_AT_ONCE = 256


def _read(offers: Sequence[Offer]) -> dict[str, list[Any]]:
    """Every attribute of every offer by its path."""
    values: dict[str, list[Any]] = {path: [] for paths in READ.values() for path in paths}
    for start in range(0, len(offers), READ_AT_ONCE):
        some = offers[start : start + READ_AT_ONCE]
        gpus = [NO_GPU if offer.gpu is None else offer.gpu for offer in some]
        for part, things in (("", some), ("gpu", gpus), ("free", [offer.free for offer in some])):
            for path, column in zip(READ[part], zip(*map(READERS[part], things), strict=True), strict=True):
                values[path].extend(column)
    return values


def _coded(values: Sequence[str | tuple[str, ...] | None]) -> tuple[Words, Codes]:
    """The words of a column and the code of each row; most rows repeat a few values."""
    distinct = dict(zip(values, range(len(values)), strict=True))
    if len(distinct) == len(values) and set(map(type, values)) == {str}:  # ids
        return Words.numbered(distinct), np.arange(len(values), dtype=np.int32)
    word_of = {value: _word(value) for value in distinct}
    words = Words.of(word_of.values())
    codes = {value: words.code(word) for value, word in word_of.items()}
    return words, np.fromiter(map(codes.__getitem__, values), np.int32, len(values))


def _word(value: str | tuple[str, ...] | None) -> str:
    if value is None:
        return ""
    return join(value) if isinstance(value, tuple) else str(value)


def _micros(amounts: Sequence[Decimal]) -> list[int]:
    known = {amount: micro(amount) for amount in dict.fromkeys(amounts)}
    return [known[amount] for amount in amounts]


def micro(amount: Decimal) -> int:
    """Whole millionths of a US dollar. Raises ``ValueError`` for an amount that has a finer part."""
    scaled = amount * MICRO
    whole = int(scaled)
    if scaled != whole:
        raise ValueError(f"{amount} USD is finer than a millionth of a dollar")
    return whole


def join(texts: Iterable[str]) -> str:
    """Several texts as one word of a table."""
    return "\n".join(texts)


def split(text: str) -> tuple[str, ...]:
    """The texts that were joined."""
    return tuple(text.split("\n")) if text else ()


def _hash(text: str) -> int:
    return zlib.crc32(text.encode()) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _decimal(value: float) -> Decimal | None:
    return None if math.isnan(value) else _exact(value)


def _exact(number: float) -> Decimal:
    """The shortest decimal that is this number: what was given, for anything a person writes."""
    return Decimal(int(number)) if number.is_integer() else Decimal(repr(number))


def _money(value: int) -> Decimal:
    if value == 0:
        return Decimal(0)
    amount = Decimal(value) / MICRO
    return amount.quantize(Decimal(1)) if amount == amount.to_integral_value() else amount.normalize()
