"""What was promised to submits that are not answered yet, so that one round does not fill the same place twice."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from placet.domain.allocations import Launch
from placet.domain.offer_table import Bits, OfferTable


@dataclass(kw_only=True)
class _Taken:
    """Sums over the open submits of one place."""

    slots: int = 0
    cpu_cores: Decimal = Decimal(0)
    memory_bytes: int = 0

    def add(self, launch: Launch, sign: int) -> None:
        self.slots += sign
        self.cpu_cores += sign * (launch.demand.cpu_cores or Decimal(0))
        self.memory_bytes += sign * (launch.demand.memory_bytes or 0)


class Reservations:
    """Offers of one provider and region share slots, cores and memory; the devices of an offer are its own.

    ``at_once`` are the providers that take only so many submits at a time.
    """

    def __init__(self, at_once: Mapping[str, int] | None = None) -> None:
        self._at_once = at_once or {}
        self._open: dict[str, Launch] = {}
        self._places: dict[tuple[str, str], _Taken] = {}
        self._gpus: dict[str, int] = {}
        self._told: tuple[OfferTable, OfferTable] | None = None

    def take(self, launch: Launch) -> None:
        """Reserve for a submit. Idempotent by the launch's key."""
        if launch.key not in self._open:
            self._open[launch.key] = launch
            self._told = None
            self._count(launch, 1)

    def give_back(self, launch: Launch) -> bool:
        """The submit is answered: from here the provider's own figures count. Idempotent.

        True when its provider had taken as many submits as it takes, so that another may go out now.
        """
        if self._open.pop(launch.key, None) is None:
            return False
        self._told = None
        full = self._left(launch.offer.provider) == 0
        self._count(launch, -1)
        return full

    def less(self, table: OfferTable) -> OfferTable:
        """The offers without what is reserved of them; the same value while nothing changes."""
        if not self._open:
            return table
        if self._told is None or self._told[0] is not table:
            self._told = (table, self._less(table))
        return self._told[1]

    def _less(self, table: OfferTable) -> OfferTable:
        slots, cores, memory = table.free_slots.copy(), table.free_cpu_cores.copy(), table.free_memory_bytes.copy()
        gpus = table.free_gpus.copy()
        for (provider, region), taken in self._places.items():
            here = _rows(table, provider, region)
            slots[here] -= taken.slots
            cores[here] -= float(taken.cpu_cores)
            memory[here] -= taken.memory_bytes
        for provider in {provider for provider, _ in self._places} & self._at_once.keys():
            here = table.provider == table.words["provider"].find(provider)
            slots[here] = np.fmin(slots[here], self._left(provider))  # a number that is not known becomes known
        for offer_id, count in self._gpus.items():
            row = table.row_of(offer_id)
            if row is not None:
                gpus[row] -= count
        return table.with_free(
            {
                "free_slots": np.maximum(slots, 0),
                "free_cpu_cores": np.maximum(cores, 0),
                "free_memory_bytes": np.maximum(memory, 0),
                "free_gpus": np.maximum(gpus, 0),
            }
        )

    def _left(self, provider: str) -> float:
        """How many more submits the provider takes now."""
        most = self._at_once.get(provider)
        if most is None:
            return np.inf
        return max(most - sum(taken.slots for (name, _), taken in self._places.items() if name == provider), 0)

    def _count(self, launch: Launch, sign: int) -> None:
        place = (launch.offer.provider, launch.offer.region)
        self._places.setdefault(place, _Taken()).add(launch, sign)
        self._gpus[launch.offer.id] = self._gpus.get(launch.offer.id, 0) + sign * launch.demand.gpu_count


def _rows(table: OfferTable, provider: str, region: str) -> Bits:
    """The offers of one place."""
    codes = table.words["provider"].find(provider), table.words["region"].find(region)
    here: Bits = (table.provider == codes[0]) & (table.region == codes[1])
    return here
