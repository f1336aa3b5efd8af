"""What was promised to submits that are not answered yet, so that one round does not fill the same place twice."""

from dataclasses import dataclass
from decimal import Decimal

from placet.domain.allocations import Launch
from placet.domain.offers import Free, Offer
from placet.domain.values import evolve


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
    """Offers of one provider and region share slots, cores and memory; the devices of an offer are its own."""

    def __init__(self) -> None:
        self._open: dict[str, Launch] = {}
        self._places: dict[tuple[str, str], _Taken] = {}
        self._gpus: dict[str, int] = {}

    def take(self, launch: Launch) -> None:
        """Reserve for a submit. Idempotent by the launch's key."""
        if launch.key not in self._open:
            self._open[launch.key] = launch
            self._count(launch, 1)

    def give_back(self, launch: Launch) -> None:
        """The submit is answered: from here the provider's own figures count. Idempotent."""
        if self._open.pop(launch.key, None) is not None:
            self._count(launch, -1)

    def less(self, offer: Offer) -> Offer:
        """The offer without what is reserved of it."""
        taken = self._places.get((offer.provider, offer.region))
        if taken is None or taken.slots == 0:
            return offer
        free = offer.free
        gpus = self._gpus.get(offer.id, 0)
        left = Free(
            slots=None if free.slots is None else max(free.slots - taken.slots, 0),
            cpu_cores=None if free.cpu_cores is None else max(free.cpu_cores - taken.cpu_cores, Decimal(0)),
            memory_bytes=None if free.memory_bytes is None else max(free.memory_bytes - taken.memory_bytes, 0),
            gpus=None if free.gpus is None else max(free.gpus - gpus, 0),
        )
        return evolve(offer, free=left)

    def _count(self, launch: Launch, sign: int) -> None:
        place = (launch.offer.provider, launch.offer.region)
        self._places.setdefault(place, _Taken()).add(launch, sign)
        self._gpus[launch.offer.id] = self._gpus.get(launch.offer.id, 0) + sign * launch.demand.gpu_count
