"""The local provider keeps the laws of a provider, with control groups and without."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from placet.domain.allocations import Launch
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Listener, ProviderBench, ProviderContract
from tests.support.local import LocalWorld, alive, launch_of, outputs, process_spec, resources, shell


class LocalBench(ProviderBench):
    """Programs that leave a trace outside of everything the provider knows."""

    def __init__(self, world: LocalWorld, traces: Path) -> None:
        self.world = world
        self._traces = traces
        traces.mkdir(exist_ok=True)

    async def connect(self, listener: Listener) -> Provider:
        return await self.world.connect(listener)

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        begin = f"echo begun >> {self._traces}/{key}; "
        match behaviour:
            case Behaviour.SUCCEED:
                spec = shell(begin + "exit 0")
            case Behaviour.EXIT_3:
                spec = shell(begin + "exit 3")
            case Behaviour.HOLD:
                spec = shell(begin + "sleep 600 & wait")
            case Behaviour.TALK:
                spec = shell(begin + "printf 'one\\ntwo\\nthree\\n'")
            case Behaviour.WRITE:
                spec = shell(begin + "printf 'one\\ntwo\\nthree\\n' > told.txt", outputs=outputs(told="told.txt"))
            case Behaviour.MISSING:
                spec = process_spec("/no/such/program")
        return launch_of(spec, key)

    def impossible(self, key: str) -> Launch:
        return launch_of(Spec(runtime=Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/x:1")), key)

    def oversized(self, key: str) -> Launch:
        return launch_of(process_spec("/bin/true", resources=resources(cpu_cores=Decimal(100_000))), key)

    async def started(self, key: str) -> int:
        trace = self._traces / key
        return len(trace.read_text().splitlines()) if trace.exists() else 0

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
