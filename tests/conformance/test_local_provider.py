"""The local provider keeps the laws of a provider, with control groups and without."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from placet.domain.allocations import Launch
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Listener, ProviderBench, ProviderContract
from tests.support.local import LocalWorld, alive, launch_of, process_spec, resources
from tests.support.programs import begun, traced


class LocalBench(ProviderBench):
    """Programs that leave a trace outside of everything the provider knows."""

    def __init__(self, world: LocalWorld, traces: Path) -> None:
        self.world = world
        self._traces = traces
        traces.mkdir(exist_ok=True)

    async def connect(self, listener: Listener) -> Provider:
        return await self.world.connect(listener)

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        return launch_of(traced(behaviour, self._traces / key), key)

    def impossible(self, key: str) -> Launch:
        return launch_of(Spec(runtime=Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/x:1")), key)

    def oversized(self, key: str) -> Launch:
        return launch_of(process_spec("/bin/true", resources=resources(cpu_cores=Decimal(100_000))), key)

    async def started(self, key: str) -> int:
        return begun(self._traces / key)

    async def alive(self, key: str) -> int:
        return len(alive(f"PLACET_ATTEMPT_KEY={key}"))

    async def cut(self, provider: Provider) -> None:
        await provider.close()


class TestWithGroups(ProviderContract):
    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[ProviderBench]:
        world = LocalWorld(folder=tmp_path / "local")
        yield LocalBench(world, tmp_path / "traces")
        await world.close()


class TestWithoutGroups(ProviderContract):
    @pytest.fixture
    async def bench(self, tmp_path: Path) -> AsyncIterator[ProviderBench]:
        world = LocalWorld(folder=tmp_path / "local", options={"use_groups": False, "use_sandbox": False})
        yield LocalBench(world, tmp_path / "traces")
        await world.close()
