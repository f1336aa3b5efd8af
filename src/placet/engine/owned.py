"""A workload in a worker's hands, and which news of it can wait a moment."""

from dataclasses import dataclass, field

from placet.domain.allocations import Observation, Phase, ResolvedInput
from placet.domain.records import Record
from placet.engine.facts import Fact, Released, StopTaken, SubmitAnswer
from placet.engine.rhythm import again_ms
from placet.stages.course import Course


@dataclass(kw_only=True)
class Owned:
    """One workload in this worker's hands: what is stored, what was heard since, and what is under way."""

    record: Record
    inputs: tuple[ResolvedInput, ...]
    adopted: bool = True
    facts: list[Fact] = field(default_factory=list)
    under_way: dict[str, int] = field(default_factory=dict)
    looked_ms: dict[str, int] = field(default_factory=dict)
    look_ms: int | None = None
    course: Course | None = None

    def busy(self, now_ms: int, every_ms: int) -> frozenset[str]:
        """The effects that are not back, and the looks begun so lately that once more would tell no more."""
        attempt = self.record.current
        lately = (
            name
            for name, begun_ms in self.looked_ms.items()
            if now_ms - begun_ms < again_ms(attempt, begun_ms, every_ms)
        )
        return frozenset(self.under_way).union(lately)


def asks_nothing(fact: Fact) -> bool:
    """Is it good news that is only to be written down?"""
    match fact:
        case SubmitAnswer():
            return fact.handle is not None
        case StopTaken():
            return True
        case Released():
            return fact.gone
        case Observation():
            return fact.phase is Phase.RUNNING
        case _:
            return False
