"""A whole control plane in a folder: the real store and engine over a scripted provider."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from placet.adapters.ambient import RandomIds, SystemClock
from placet.adapters.artifacts.files import FileArtifacts
from placet.adapters.store import make_store
from placet.domain.allocations import Launch
from placet.domain.offers import Offer
from placet.domain.records import Record
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.engine.effects import Effects
from placet.engine.intake import Intake, IntakePorts, Submission, Submitted
from placet.engine.market import Market
from placet.engine.queries import Queries, QueryPorts
from placet.engine.reconcile import Ports, ReconcileOptions, Reconciler
from placet.ports.store import Store
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.waiting import wait_until_async

TENANT = "tenant"


class Fingerprints:
    """Digests by representation: equal values, equal digests."""

    def spec_digest(self, spec: Spec) -> str:
        return "sha256:" + hashlib.sha256(repr(spec).encode()).hexdigest()

    def body_digest(self, spec: Spec) -> str:
        return self.spec_digest(spec)


@dataclass(kw_only=True)
class ControlPlane:
    """One worker with its doors."""

    store: Store
    provider: ScriptedProvider
    intake: Intake
    queries: Queries
    reconciler: Reconciler
    loop: "asyncio.Task[None]"

    async def submit(self, spec: Spec | None = None, key: str | None = None) -> str:
        outcome = await self.intake.submit(Submission(tenant=TENANT, spec=spec or process(), key=key, actor="test"))
        assert isinstance(outcome, Submitted), outcome
        return outcome.workload.id

    async def record(self, workload_id: str) -> Record:
        record = await self.queries.get(TENANT, workload_id)
        assert record is not None
        return record

    async def until(self, workload_id: str, holds: Callable[[Record], bool], what: str) -> Record:
        async def check() -> bool:
            if self.loop.done():
                self.loop.result()
            return holds(await self.record(workload_id))

        await wait_until_async(check, 10, what)
        return await self.record(workload_id)

    async def finished(self, workload_id: str) -> Record:
        return await self.until(workload_id, lambda record: record.workload.final, f"{workload_id} finished")

    async def kill(self) -> None:
        """Die without a word: nothing is handed back, nothing in memory survives."""
        self.loop.cancel()
        await asyncio.gather(self.loop, return_exceptions=True)
        await self.provider.close()
        await self.store.close()


def process(*command: str, **fields: object) -> Spec:
    """A spec of a command."""
    runtime = Runtime(kind=RuntimeKind.PROCESS, command=command or ("true",))
    return Spec(runtime=runtime, **fields)  # type: ignore[arg-type]  # tests name fields of Spec


def always(script: Script) -> Callable[[Launch], Script]:
    """The same script for every attempt."""
    return lambda launch: script


async def start(
    url: str,
    folder: Path,
    provider: ScriptedProvider,
    *,
    worker: str = "w1",
    options: ReconcileOptions | None = None,
    through: Callable[[Store], Store] = lambda store: store,
    artifacts: FileArtifacts | None = None,
) -> ControlPlane:
    """A control plane on a database that may hold the work of an earlier one; ``through`` may put faults before it."""
    clock, ids = SystemClock(), RandomIds()
    store = through(make_store(url))
    await store.open()
    artifacts = artifacts or FileArtifacts(folder / "artifacts")
    providers = {provider.name: provider}
    market = Market(providers)
    effects = Effects(providers, artifacts, clock)
    reconciler = Reconciler(
        Ports(
            store=store,
            providers=providers,
            effects=effects,
            clock=clock,
            ids=ids,
            resolve_inputs=lambda spec: (),
            offers=market,
        ),
        options
        or ReconcileOptions(
            isolated=False, worker=worker, owner_timeout_s=0.4, takeover_poll_s=0.1, beat_s=0.1, observe_every_s=0.3
        ),
    )
    intake = Intake(
        IntakePorts(
            store=store,
            clock=clock,
            ids=ids,
            fingerprint=Fingerprints(),
            offers=market,
            check=lambda spec: (),
            owner=reconciler,
            budgets=reconciler.allowances.fresh,
        )
    )
    queries = Queries(QueryPorts(store=store, artifacts=artifacts, providers=providers, clock=clock, offers=market))
    store.watch(reconciler.stored_elsewhere, only_elsewhere=True)
    store.watch(queries.stored)
    await provider.open(reconciler.hints())
    return ControlPlane(
        store=store,
        provider=provider,
        intake=intake,
        queries=queries,
        reconciler=reconciler,
        loop=asyncio.ensure_future(reconciler.run()),
    )


@asynccontextmanager
async def control_plane(
    folder: Path,
    script: Callable[[Launch], Script],
    *,
    slots: int = 1000,
    artifacts: FileArtifacts | None = None,
    offers: Callable[[], Sequence[Offer]] | None = None,
    provider: ScriptedProvider | None = None,
    options: ReconcileOptions | None = None,
) -> AsyncIterator[ControlPlane]:
    """A control plane that is shut down properly at the end."""
    provider = provider or ScriptedProvider(SystemClock(), script, slots=slots, offers=offers)
    plane = await start(f"sqlite:///{folder / 'placet.db'}", folder, provider, artifacts=artifacts, options=options)
    try:
        yield plane
    finally:
        await plane.reconciler.stop()
        await asyncio.gather(plane.loop, return_exceptions=True)
        await plane.store.close()
