"""The composition root: the only place where concrete things meet. It decides nothing."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass

from placet.adapters.ambient import RandomIds, SystemClock
from placet.adapters.artifacts.files import FileArtifacts
from placet.adapters.inputs import LocalInputs
from placet.adapters.providers.local import local_provider
from placet.adapters.store import make_store
from placet.config import Settings
from placet.contract.canonical import body_digest, spec_digest
from placet.contract.support import unsupported
from placet.domain.offers import Offer
from placet.domain.problems import Problem
from placet.domain.spec import Spec
from placet.engine.effects import Effects
from placet.engine.intake import Intake, IntakePorts
from placet.engine.queries import Queries, QueryPorts
from placet.engine.reconcile import Ports, ReconcileOptions, Reconciler
from placet.ports.provider import Provider
from placet.ports.store import Store


class _Fingerprint:
    """Digests of the canonical form."""

    def spec_digest(self, spec: Spec) -> str:
        return spec_digest(spec)

    def body_digest(self, spec: Spec) -> str:
        return body_digest(spec)


@dataclass(kw_only=True)
class App:
    """Everything of one server, connected and moving between ``open`` and ``close``."""

    settings: Settings
    clock: SystemClock
    ids: RandomIds
    store: Store
    providers: Mapping[str, Provider]
    intake: Intake
    queries: Queries
    reconciler: Reconciler
    _loop: "asyncio.Task[None] | None" = None

    def begin(self) -> None:
        """Start moving workloads; what an earlier server left is adopted."""
        self._loop = asyncio.create_task(self.reconciler.run(), name="reconciler")

    async def failed(self) -> BaseException | None:
        """Why the engine is not moving, if it is not."""
        if self._loop is None or not self._loop.done() or self._loop.cancelled():
            return None
        return self._loop.exception()

    async def idle(self) -> bool:
        """Is there nothing left to move?"""
        counts = await self.store.counts()
        live = sum(count for state, count in counts.items() if not state.final)
        return self.reconciler.owned_count == 0 and live == 0

    async def close(self) -> None:
        """Hand back what is owned and disconnect; what runs goes on running."""
        await self.reconciler.stop()
        if self._loop is not None:
            await asyncio.gather(self._loop, return_exceptions=True)
        for provider in self.providers.values():
            await provider.close()
        await self.store.close()


async def open_app(settings: Settings) -> App:
    """Connect everything. Raises ``SchemaMismatch`` for a database of another version."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    clock, ids = SystemClock(), RandomIds()
    store = make_store(settings.database)
    await store.open()
    artifacts = FileArtifacts(settings.artifacts)
    inputs = LocalInputs(settings.storage)
    providers: dict[str, Provider] = {}
    if settings.local.enabled:
        local = local_provider(settings, clock)
        providers[local.name] = local

    def offers() -> tuple[Offer, ...]:
        return tuple(offer for provider in providers.values() for offer in provider.offers())

    def check(spec: Spec) -> tuple[Problem, ...]:
        return (*unsupported(spec), *inputs.check(spec))

    reconciler = Reconciler(
        Ports(
            store=store,
            providers=providers,
            effects=Effects(providers, artifacts, clock),
            clock=clock,
            ids=ids,
            resolve_inputs=inputs.resolve,
        ),
        _options(settings, ids),
    )
    intake = Intake(
        IntakePorts(
            store=store,
            clock=clock,
            ids=ids,
            fingerprint=_Fingerprint(),
            offers=offers,
            check=check,
            touched=reconciler.touched,
        )
    )
    queries = Queries(QueryPorts(store=store, artifacts=artifacts, providers=providers, clock=clock, offers=offers))
    store.watch(reconciler.stored)
    store.watch(queries.stored)
    for provider in providers.values():
        await provider.open(reconciler.hints())
    return App(
        settings=settings,
        clock=clock,
        ids=ids,
        store=store,
        providers=providers,
        intake=intake,
        queries=queries,
        reconciler=reconciler,
    )


def _options(settings: Settings, ids: RandomIds) -> ReconcileOptions:
    engine = settings.engine
    return ReconcileOptions(
        worker=f"{os.uname().nodename}-{os.getpid()}-{ids.nonce()[:8]}",
        owned_max=engine.max_live,
        beat_s=engine.beat_seconds,
        owner_timeout_s=engine.lease_seconds,
        observe_every_s=engine.poll_seconds,
    )
