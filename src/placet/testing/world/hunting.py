"""How many worlds it takes until a mutant is noticed."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from placet.testing.world.chance import Streams
from placet.testing.world.mutants import Mutant, broken
from placet.testing.world.options import Options, draw
from placet.testing.world.simulate import simulate

# The rule that a world names when a server ends by an exception.
CRASHED = "fault"


@dataclass(frozen=True, kw_only=True)
class Hunt:
    """The seeds that were lived through, and those in which only the mutant violates something.

    ``unsound`` are worlds in which the engine does so as it is: a fault of its own, or of the oracle. ``crashed`` are
    those in which the mutant does not run at all, which proves nothing about its rule.
    """

    mutant: str
    lived: int
    caught: tuple[int, ...]
    rules: tuple[str, ...]
    unsound: tuple[int, ...] = ()
    crashed: tuple[int, ...] = ()

    @property
    def rate(self) -> float:
        """The share of worlds that caught it."""
        return len(self.caught) / self.lived if self.lived else 0.0

    def seeds_for(self, certainty: float) -> int | None:
        """How many worlds it takes to catch it with that probability; ``None`` where none did."""
        if not self.caught:
            return None
        return 1 if self.rate == 1 else math.ceil(math.log(1 - certainty) / math.log(1 - self.rate))


def focused(mutant: Mutant, seed: int) -> Options:
    """The world of a seed, with what brings the mutant to light."""
    options = draw(seed)
    chance = Streams(seed).of("focus")
    faults = {**options.faults, **dict.fromkeys(mutant.faults, mutant.strength)}
    # What ends most worlds before anything interesting is left out; and long waits by a card take long.
    for name in ("dark", "token_expired", "store_full"):
        if name not in mutant.faults:
            faults.pop(name, None)
    card = chance.choice(mutant.cards) if mutant.cards else options.card
    return replace(
        options,
        faults=faults,
        card=card,
        faults_s=mutant.faults_s or options.faults_s,
        workers=mutant.workers or options.workers,
    )


def hunt(mutant: Mutant, seeds: Iterable[int], *, enough: int = 1) -> Hunt:
    """Live until it was caught so often, or the seeds are at their end."""
    caught: list[int] = []
    unsound: list[int] = []
    crashed: list[int] = []
    rules: dict[str, None] = {}
    lived = 0
    for seed in seeds:
        lived += 1
        options = focused(mutant, seed)
        with broken(mutant):
            report = simulate(options)
        if not report.violations:
            continue
        if report.violations[0].rule == CRASHED:
            crashed.append(seed)
            continue
        if simulate(options).violations:
            unsound.append(seed)
            continue
        caught.append(seed)
        rules[report.violations[0].rule] = None
        if len(caught) >= enough:
            break
    return Hunt(
        mutant=mutant.name,
        lived=lived,
        caught=tuple(caught),
        rules=tuple(rules),
        unsound=tuple(unsound),
        crashed=tuple(crashed),
    )
