"""The simulated provider keeps the laws of a provider, those about faults included."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.simulated import SimulatedOptions, SimulatedProvider
from placet.adapters.providers.simulated.behaviour import look
from placet.adapters.providers.simulated.offers import Row
from placet.domain.allocations import Launch
from placet.domain.offers import Offer
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.domain.values import evolve
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Fault, Listener, ProviderBench, ProviderContract
from tests.support.local import launch_of, outputs, resources

PROCESS = Runtime(kind=RuntimeKind.PROCESS, command=("work",))
CPU = Offer(id="simulated-eu-cpu", provider="simulated", price_usd_per_hour=Decimal("0.24"))


class SimulatedBench(ProviderBench):
    """What is true is asked of the cloud's file, through another pair of eyes than the provider's."""

    def __init__(self, folder: Path) -> None:
        self._options = SimulatedOptions(folder=folder)
        self.opened: list[SimulatedProvider] = []

    async def connect(self, listener: Listener) -> Provider:
        return await self._connected(self._options, listener)

    async def _connected(self, options: SimulatedOptions, listener: Listener) -> Provider:
        provider = SimulatedProvider(options, SystemClock())
        listener.provider = provider
        await provider.open(listener.hints)
        self.opened.append(provider)
        return provider

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        return self._playing(behaviour, key)

    def faulty(self, fault: Fault, key: str) -> Launch | None:
        return self._playing(fault, key)

    async def priced_zero(self, listener: Listener) -> Provider | None:
        free = Row(id="free", region="simulated-eu", cpu_cores=1, memory_gb=1, price="0", machines=1)
        return await self._connected(evolve(self._options, rows=(*self._options.rows, free)), listener)

    def _playing(self, what: str, key: str) -> Launch:
        told = outputs(told="told.txt") if what == Behaviour.WRITE else ()
        launch = evolve(launch_of(Spec(runtime=PROCESS, outputs=told), key), offer=CPU)
        played = SimulatedProvider(self._options, SystemClock()).rehearsed(launch, what)
        assert played is not None, f"{what} cannot be played"
        return played

    def impossible(self, key: str) -> Launch:
        return evolve(self.launch(Behaviour.SUCCEED, key), offer=Offer(id="no-such-machine", provider="simulated"))

    def oversized(self, key: str) -> Launch:
        launch = launch_of(Spec(runtime=PROCESS, resources=resources(memory_bytes=10**15)), key)
        return evolve(launch, offer=CPU)

    async def started(self, key: str) -> int:
        machine = self.opened[0]._cloud.machines().get(key)
        return len(machine.granted_ms) if machine else 0

    async def alive(self, key: str) -> int:
        machine = self.opened[0]._cloud.machines().get(key)
        return int(machine is not None and not look(machine, SystemClock().now_ms()).over)

    async def cut(self, provider: Provider) -> None:
        await provider.close()


class TestSimulated(ProviderContract):
    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[ProviderBench]:
        bench = SimulatedBench(tmp_path / "simulated")
        yield bench
        for provider in bench.opened:
            await provider.close()
