"""What happened in one world: a digest of all of it, the last lines, how often what was met, and what was wrong."""

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

LINES_KEPT = 400
VIOLATIONS_MAX = 20


@dataclass(frozen=True, kw_only=True)
class Violation:
    """Something that must never be, found at this second; ``rule`` is the invariant's number or name."""

    rule: str
    what: str
    at_s: float


class Trace:
    """Everybody in the world writes here; nobody reads it until the world has ended."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._digest = hashlib.blake2b(digest_size=16)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.events = 0
        self.told_s = 0.0
        self.injected: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.violations: list[Violation] = []

    def tell(self, text: str) -> None:
        """One more thing happened."""
        self.told_s = self._time()
        line = f"{self.told_s:10.3f} {text}"
        self._digest.update(line.encode())
        self.lines.append(line)
        self.events += 1

    def meet(self, situation: str) -> None:
        """A situation that a simulation that is worth anything gets into sometimes."""
        self.met[situation] += 1

    def violate(self, rule: str, what: str) -> None:
        """An invariant does not hold."""
        self.tell(f"VIOLATION {rule}: {what}")
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(rule=rule, what=what, at_s=self._time()))

    @property
    def digest(self) -> str:
        """The same for two lives of one world."""
        return self._digest.hexdigest()
