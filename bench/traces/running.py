"""All cases of a set under all policies, on as many processes as asked for."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from time import process_time

from bench.traces.sets import CaseSet
from bench.traces.simulator import Case, Outcome, Rule, simulate

# Cases with the same delay and deadline stay together: they share what a policy works out once.
PIECE = 45


@dataclass(frozen=True, kw_only=True)
class Ran:
    """The outcomes of one policy, in the order of the cases, and the processor time it took with the simulation."""

    outcomes: tuple[Outcome, ...]
    cpu_s: float

    @property
    def ms_per_look(self) -> float:
        """Everything included: the simulator, learning, solving, deciding."""
        return 1000 * self.cpu_s / max(1, sum(outcome.looks for outcome in self.outcomes))


def run(cases: CaseSet, rules: Mapping[str, Rule], processes: int, tell: Callable[[str], None]) -> dict[str, Ran]:
    pieces = [cases.cases[first : first + PIECE] for first in range(0, len(cases.cases), PIECE)]
    found = {}
    with ProcessPoolExecutor(processes) as pool:
        for name, rule in rules.items():
            tell(f"set {cases.name}: {len(cases.cases)} cases under {name}")
            parts = list(pool.map(partial(_piece, rule), pieces))
            outcomes = tuple(chain.from_iterable(part for part, _ in parts))
            found[name] = Ran(outcomes=outcomes, cpu_s=sum(cpu_s for _, cpu_s in parts))
    return found


def _piece(rule: Rule, cases: Sequence[Case]) -> tuple[list[Outcome], float]:
    began_s = process_time()
    return [simulate(case, rule) for case in cases], process_time() - began_s
