"""Whether a fault happens here and now: one stream of chance for each kind."""

from placet.testing.world.chance import Streams
from placet.testing.world.options import FAULTS, Options
from placet.testing.world.trace import Trace

CERTAIN = 0.9


class Faults:
    """In the phase of faults; after it nothing goes wrong any more."""

    def __init__(self, options: Options, streams: Streams, trace: Trace) -> None:
        self._odds = {name: min(FAULTS[name] * strength, CERTAIN) for name, strength in options.faults.items()}
        self._streams = streams
        self._trace = trace
        self.kinds = frozenset(self._odds)
        self.on = True

    def hit(self, name: str) -> bool:
        """Does it happen?"""
        odds = self._odds.get(name)
        if odds is None or not self.on or self._streams.of(name).random() >= odds:
            return False
        self._trace.injected[name] += 1
        self._trace.tell(f"fault {name}")
        return True

    def between(self, name: str, low: float, high: float) -> float:
        """How much of it, evenly."""
        return low + (high - low) * self._streams.of(f"{name} size").random()
