"""Worlds in which what a test says goes wrong: the real engine and store in virtual time, truth at the provider."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placet.domain.records import Record, Workload
from placet.domain.states import WorkloadState
from placet.testing.world.adapter import Adapter
from placet.testing.world.cloud import Machine
from placet.testing.world.options import Options, Wish
from placet.testing.world.serving import World
from placet.testing.world.simulate import Report, live, serve

When = Callable[[int], bool]
Act = Callable[[World], None]


def always(number: int) -> bool:
    """Each time that it could happen."""
    return number >= 0


def first(count: int) -> When:
    """The first so many times."""
    return lambda number: number < count


def every(count: int) -> When:
    """Once in so many times."""
    return lambda number: number % count == count - 1


def at(*numbers: int) -> When:
    """These times, counted from 0."""
    return lambda number: number in numbers


@dataclass(kw_only=True)
class Script:
    """Takes the place of chance: what happens when, and how long or how late it is where that is asked."""

    world: World
    when: Mapping[str, When]
    sizes: Mapping[str, float]
    asked: Counter[str] = field(default_factory=Counter)

    def hit(self, name: str) -> bool:
        number = self.asked[name]
        self.asked[name] += 1
        happens = self.world.faults.on and name in self.when and self.when[name](number)
        if happens:
            self.world.trace.injected[name] += 1
            self.world.trace.tell(f"fault {name}")
        return happens

    def between(self, name: str, low: float, high: float) -> float:
        return self.sizes.get(name, (low + high) / 2)


@dataclass(kw_only=True)
class Lived:
    """What became of it: the records at the end, by the name of their wish, and what really existed."""

    report: Report
    world: World
    records: Mapping[str, Record]
    asked: Counter[str]

    def machines(self, name: str = "w0") -> list[Machine]:
        return self.world.cloud.of(self.records[name].workload.id)

    def workload(self, name: str = "w0") -> Workload:
        return self.records[name].workload

    def starts(self, name: str = "w0") -> int:
        """How often the user's program was begun."""
        return sum(machine.starts for machine in self.machines(name))

    def sent(self) -> int:
        """How many creates left."""
        return sum(" sends " in line for line in self.report.lines)

    @property
    def states(self) -> set[WorkloadState]:
        return {record.workload.state for record in self.records.values()}


def wish(name: str = "w0", *, at_s: float = 1.0, runs_s: float = 30.0, **more: Any) -> Wish:
    """A plain workload."""
    return Wish(name=name, at_s=at_s, runs_s=runs_s, **{"infrastructure_attempts": 6, **more})


def wishes(count: int, *, apart_s: float = 0.0, **more: Any) -> tuple[Wish, ...]:
    """Many plain ones."""
    return tuple(wish(f"w{number}", at_s=1.0 + number * apart_s, **more) for number in range(count))


def lived(
    asked_for: Sequence[Wish] = (),
    *,
    when: Mapping[str, When] | None = None,
    sizes: Mapping[str, float] | None = None,
    then: Mapping[float, Act] | None = None,
    before: Act | None = None,
    allow: frozenset[str] = frozenset(),
    **options: Any,
) -> Lived:
    """Live through it. ``then`` are acts at seconds; ``before`` acts on the world before anything happens. The oracle
    has nothing to object, but for the rules in ``allow``.
    """
    when = dict(when or {})
    found: list[tuple[World, dict[str, Record], Script]] = []

    async def life(world: World) -> None:
        script = Script(world=world, when=when, sizes=sizes or {})
        world.faults.hit = script.hit  # type: ignore[method-assign]  # the test decides in the place of chance
        world.faults.between = script.between  # type: ignore[method-assign]  # as above
        if before is not None:
            before(world)
        for at_s, act in (then or {}).items():
            world.loop.call_later(at_s, act, world)
        await serve(world)
        named = {wish.name: workload_id for workload_id, wish in world.oracle.wishes.items()}
        records = {name: world.disk.database.records([workload_id])[0] for name, workload_id in named.items()}
        found.append((world, records, script))

    plain = Options(
        seed=1,
        card="keyless",
        workers=1,
        offers=3,
        faults_s=600.0,
        faults=dict.fromkeys(when, 1.0),
        wishes=tuple(asked_for) or (wish(),),
    )
    report = live(replace(plain, **options), life)
    wrong = [violation for violation in report.violations if violation.rule not in allow]
    assert not wrong, (wrong, report.lines[-40:])
    world, records, script = found[0]
    return Lived(report=report, world=world, records=records, asked=script.asked)


def kill_servers(world: World) -> None:
    """All servers die now, and come back after a while."""
    for listener in list(world.cloud.listeners):
        assert isinstance(listener, Adapter)
        listener._process.kill()


def dark(begin_s: float, end_s: float) -> Act:
    """Nobody gets through to the provider in this time."""

    def act(world: World) -> None:
        world.wire.dark_s = (begin_s, end_s)

    return act
