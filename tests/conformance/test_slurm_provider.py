"""The Slurm provider keeps the laws of a provider, on a real Slurm."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.domain.allocations import Launch
from placet.domain.offers import Offer
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Listener, ProviderBench, ProviderContract
from tests.support.local import alive, launch_of, process_spec, resources, shell
from tests.support.slurm import Cluster, SlurmWorld

_roots = itertools.count(1)


class SlurmBench(ProviderBench):
    """Programs that leave a trace outside of everything the provider knows."""

    def __init__(self, world: SlurmWorld, traces: Path) -> None:
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
            case Behaviour.MISSING:
                spec = process_spec("/no/such/program")
        return self._on_the_cluster(spec, key)

    def impossible(self, key: str) -> Launch:
        image = Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/x:1")
        return self._on_the_cluster(Spec(runtime=image), key)

    def oversized(self, key: str) -> Launch:
        spec = process_spec("/bin/true", resources=resources(cpu_cores=Decimal(10_000)))
        return self._on_the_cluster(spec, key)

    async def started(self, key: str) -> int:
        trace = self._traces / key
        return len(trace.read_text().splitlines()) if trace.exists() else 0

    async def alive(self, key: str) -> int:
        return len(alive(f"PLACET_ATTEMPT_KEY={key}"))

    async def cut(self, provider: Provider) -> None:
        await provider.close()

    def _on_the_cluster(self, spec: Spec, key: str) -> Launch:
        return replace(launch_of(spec, key), offer=Offer(id="slurm-main-cpu", provider="slurm"))


class TestSlurm(ProviderContract):
    @pytest.fixture
    async def bench(self, slurm_cluster: Cluster, tmp_path: Path) -> AsyncIterator[ProviderBench]:
        world = SlurmWorld(cluster=slurm_cluster, shared=slurm_cluster.shared / f"laws-{next(_roots)}")
        yield SlurmBench(world, tmp_path / "traces")
        await world.close()
