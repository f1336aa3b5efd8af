"""The simulated provider keeps the laws of a provider, those about faults included."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.simulated import Behaviour as How
from placet.adapters.providers.simulated import SimulatedOptions, SimulatedProvider
from placet.adapters.providers.simulated.behaviour import look
from placet.domain.allocations import Launch
from placet.domain.offers import Offer
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.domain.values import evolve
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Listener, ProviderBench, ProviderContract
from tests.support.local import launch_of, resources

STATED = {
    Behaviour.SUCCEED: {"runtime_seconds": "0"},
    Behaviour.EXIT_3: {"runtime_seconds": "0", "exit_code": 3},
    Behaviour.HOLD: {"runtime_seconds": "600"},
    Behaviour.TALK: {"runtime_seconds": "0", "log": "one\ntwo\nthree\n"},
    Behaviour.MISSING: {"start_fails": True},
}
PROCESS = Runtime(kind=RuntimeKind.PROCESS, command=("work",))


class SimulatedBench(ProviderBench):
    """What is true is asked of the cloud's file, through another pair of eyes than the provider's."""

    def __init__(self, folder: Path) -> None:
        self._options = SimulatedOptions(folder=folder, behaviour=How(startup_s=0.02))
        self.opened: list[SimulatedProvider] = []

    async def connect(self, listener: Listener) -> Provider:
        provider = SimulatedProvider(self._options, SystemClock())
        listener.provider = provider
        await provider.open(listener.hints)
        self.opened.append(provider)
        return provider

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        return self.stating(key, **STATED[behaviour])

    def stating(self, key: str, **options: object) -> Launch:
        """A launch whose spec states these options."""
        spec = Spec(runtime=PROCESS, provider_options=(("simulated", json.dumps(options)),))
        return evolve(launch_of(spec, key), offer=Offer(id="simulated-eu-cpu", provider="simulated"))

    def impossible(self, key: str) -> Launch:
        return evolve(self.launch(Behaviour.SUCCEED, key), offer=Offer(id="no-such-machine", provider="simulated"))

    def oversized(self, key: str) -> Launch:
        launch = launch_of(Spec(runtime=PROCESS, resources=resources(memory_bytes=10**15)), key)
        return evolve(launch, offer=Offer(id="simulated-eu-cpu", provider="simulated"))

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
