"""What a law of a provider is: a sentence and a function that tries it, which needs no test framework."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from placet.domain.allocations import Handle, Launch
from placet.ports.provider import Provider
from placet.testing.conformance.provider_bench import Behaviour, Fault, Listener, ProviderBench


class NotApplicable(Exception):
    """The law says nothing about this provider, or cannot be tried on it; the message says why."""


def must(holds: object, what: str) -> None:
    """The law is broken unless it holds; ``what`` is what should be."""
    if not holds:
        raise AssertionError(what)


@dataclass(kw_only=True)
class Trial:
    """One try of one law: a bench, and a connection whose permits are granted. It remembers what it launched."""

    bench: ProviderBench
    provider: Provider
    listener: Listener
    launched: list[Launch] = field(default_factory=list)

    def key(self, name: str) -> str:
        return f"{self.bench.prefix}law-{name}"

    def launch(self, behaviour: Behaviour, name: str) -> Launch:
        return self._noted(self.bench.launch(behaviour, self.key(name)))

    def impossible(self, name: str) -> Launch:
        return self._noted(self.bench.impossible(self.key(name)))

    def oversized(self, name: str) -> Launch:
        return self._noted(self.bench.oversized(self.key(name)))

    def faulty(self, fault: Fault, name: str) -> Launch:
        """A launch that meets the fault, or the law is not applicable."""
        launch = self.bench.faulty(fault, self.key(name))
        if launch is None:
            raise NotApplicable(f"no fault injection: {fault.value.replace('_', ' ')}")
        return self._noted(launch)

    def never(self, name: str) -> Handle:
        """How something would be addressed that was never there."""
        return Handle(provider=self.provider.name, key=self.key(name), native_id="", created_ms=0)

    def needs_fence(self) -> None:
        if not self.provider.card.fence:
            raise NotApplicable("this provider has no fence")

    async def started(self, name: str, expected: int) -> None:
        """The ground truth, where anybody knows it."""
        count = await self.bench.started(self.key(name))
        must(count is None or count == expected, f"the program began {count} times and not {expected}")

    async def alive(self, name: str, expected: bool) -> None:
        """The same of what lives."""
        count = await self.bench.alive(self.key(name))
        must(count is None or (count > 0) == expected, f"{count} of it live, {'some' if expected else 'none'} should")

    @asynccontextmanager
    async def other(self, grants: bool | None = True) -> AsyncIterator[tuple[Provider, Listener]]:
        """One more connection, closed at the end."""
        listener = Listener(grants)
        provider = listener.provider = await self.bench.connect(listener)
        try:
            yield provider, listener
        finally:
            await provider.close()

    @asynccontextmanager
    async def alone(self, grants: bool | None) -> AsyncIterator[tuple[Provider, Listener]]:
        """The same as the only one: nobody else grants what this one does not."""
        await self.provider.close()
        async with self.other(grants) as opened:
            yield opened

    def _noted(self, launch: Launch) -> Launch:
        if launch.key not in {each.key for each in self.launched}:
            self.launched.append(launch)
        return launch


@dataclass(frozen=True, kw_only=True)
class Law:
    """``name`` is stable, ``says`` the sentence; ``launches`` is how many allocations it may make."""

    name: str
    says: str
    launches: int
    holds: Callable[[Trial], Awaitable[None]]


DECLARED: list[Law] = []


def law(says: str, *, launches: int = 1) -> Callable[[Callable[[Trial], Awaitable[None]]], Law]:
    """Declare the law that a function tries; its name is that of the function."""

    def declared(holds: Callable[[Trial], Awaitable[None]]) -> Law:
        name = getattr(holds, "__name__", "").replace("_", "-")
        made = Law(name=name, says=says, launches=launches, holds=holds)
        DECLARED.append(made)
        return made

    return declared


@asynccontextmanager
async def trial_on(bench: ProviderBench) -> AsyncIterator[Trial]:
    """A trial with an open connection, closed at the end."""
    listener = Listener()
    provider = listener.provider = await bench.connect(listener)
    try:
        yield Trial(bench=bench, provider=provider, listener=listener)
    finally:
        await asyncio.shield(provider.close())
