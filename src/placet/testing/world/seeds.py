"""Many seeds, one after the other or on several processors, and what they come to together."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from placet.testing.world.answers import rare
from placet.testing.world.options import Options, draw
from placet.testing.world.simulate import Report, simulate

# Every so many seeds one is lived through twice: all that happened must be the same.
TWICE_EVERY = 25


@dataclass(kw_only=True)
class Tally:
    """Sums over seeds."""

    seeds: int = 0
    failing: list[Report] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    events: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0

    def add(self, report: Report) -> None:
        """One more."""
        self.seeds += 1
        self.injected += report.injected
        self.met.update(report.met.keys())
        self.answered += report.answered
        self.events += report.events
        self.virtual_s += report.virtual_s
        if report.violations:
            self.failing.append(report)

    def lines(self) -> Iterator[str]:
        """What there is to tell."""
        per_s = self.seeds / max(self.took_s, 1e-9)
        hours = self.virtual_s / 3600
        yield f"{self.seeds} seeds in {self.took_s:.1f} s, {per_s:.1f} a second; {hours:.0f} h of virtual time"
        yield f"{self.events} events, {sum(self.injected.values())} faults injected: " + _counts(self.injected)
        yield "situations, in so many of 1,000 seeds: " + _counts(
            Counter({name: round(1000 * count / max(self.seeds, 1)) for name, count in self.met.items()})
        )
        yield "answers of the account: " + _counts(self.answered)
        yield from (f"too rare: {told}" for told in rare(self.met, self.seeds))
        yield f"{len(self.failing)} seeds violate something"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def lived(options: Options) -> Report:
    """One world, and now and then the same once more."""
    report = simulate(options)
    if options.seed % TWICE_EVERY == 0:
        again = simulate(options)
        if again.digest != report.digest:
            raise AssertionError(f"seed {options.seed} is not repeatable: {report.digest}, then {again.digest}")
    return report


def run(seeds: Iterable[int], *, processes: int = 1, told: Callable[[Report], None] = lambda report: None) -> Tally:  # noqa: ARG005 - who wants to hear nothing
    """Draw and live through each of them."""
    tally = Tally()
    begun_s = time.perf_counter()
    worlds = [draw(seed) for seed in seeds]
    if processes == 1:
        for report in map(lived, worlds):
            tally.add(report)
            told(report)
    else:
        with ProcessPoolExecutor(processes) as pool:
            for report in pool.map(lived, worlds, chunksize=4):
                tally.add(report)
                told(report)
    tally.took_s = time.perf_counter() - begun_s
    return tally
