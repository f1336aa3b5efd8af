"""The container provider keeps the laws of a provider, against a real engine."""

from collections.abc import AsyncIterator

import pytest

from placet.domain.allocations import Launch
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Listener, ProviderBench, ProviderContract
from tests.support.engines import Engine, EngineWorld, container_launch


class ContainerBench(ProviderBench):
    """Programs that leave a trace in their log, and what the engine itself says about its containers."""

    def __init__(self, world: EngineWorld) -> None:
        self.world = world

    async def connect(self, listener: Listener) -> Provider:
        return await self.world.connect(listener)

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        return container_launch(self.world, behaviour, key)

    def impossible(self, key: str) -> Launch:
        return self.world.launch(key, Spec(runtime=Runtime(kind=RuntimeKind.PROCESS, command=("true",))))

    def oversized(self, key: str) -> Launch:
        return self.world.oversized(key)

    async def started(self, key: str) -> int:
        return self.world.starts(key)

    async def alive(self, key: str) -> int:
        return self.world.alive(key)

    async def cut(self, provider: Provider) -> None:
        await provider.close()


class TestDocker(ProviderContract):
    @pytest.fixture
    async def bench(self, docker_engine: Engine) -> AsyncIterator[ProviderBench]:
        async with EngineWorld.on(docker_engine) as world:
            yield ContainerBench(world)


class TestPodman(ProviderContract):
    @pytest.fixture
    async def bench(self, podman_engine: Engine) -> AsyncIterator[ProviderBench]:
        async with EngineWorld.on(podman_engine) as world:
            yield ContainerBench(world)
