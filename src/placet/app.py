"""The composition root: the only place where concrete things meet. It decides nothing."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placet.adapters.ambient import RandomIds, SystemClock, chance
from placet.adapters.artifacts.files import FileArtifacts
from placet.adapters.catalog.models import HUB, ModelCatalog
from placet.adapters.corpus import CorpusFile
from placet.adapters.hooks import GuardedSender
from placet.adapters.inputs import LocalInputs
from placet.adapters.objects import Access, Unusable, parse_place
from placet.adapters.objects.sources import ObjectSources, Readable
from placet.adapters.providers.local import local_provider
from placet.adapters.store import make_store, migrate
from placet.adapters.store.backup import CannotCopy as CannotCopy
from placet.adapters.store.backup import backup, check, restore
from placet.adapters.vault import Envelopes, KeyPlaces
from placet.config import Settings
from placet.contract.canonical import body_digest, spec_digest
from placet.contract.support import unsupported
from placet.domain.errors import ProviderError, StoreError, StoreFull
from placet.domain.spec import Spec
from placet.engine.budgets import Budgets
from placet.engine.catalogs import Catalogs
from placet.engine.courier import Courier
from placet.engine.effects import Effects
from placet.engine.hearing import Hearing
from placet.engine.hooks import Hooks
from placet.engine.intake import Intake, IntakePorts
from placet.engine.ledgers import Ledgers
from placet.engine.market import Market
from placet.engine.observing import Observer
from placet.engine.orphans import Orphans
from placet.engine.queries import Queries, QueryPorts
from placet.engine.reaper import Reaper, Sweeps
from placet.engine.reconcile import Ports, ReconcileOptions, Reconciler
from placet.engine.redelivering import Redelivering
from placet.engine.resolving import Resolving
from placet.engine.timekeeping import StoreClock
from placet.engine.uploading import Uploading
from placet.engine.vault import Vault
from placet.failpoints import Point, around
from placet.ports.artifacts import Artifacts, PartUploads
from placet.ports.provider import Examined, Provider
from placet.ports.store import Store
from placet.sdk import places
from placet.server.doors import Doors
from placet.server.journal import configure
from placet.server.rest import build_rest
from placet.server.sealing import check_key, rewrap
from placet.server.serve import AlreadyServed as AlreadyServed
from placet.server.serve import CannotServe as CannotServe
from placet.server.serve import Control, Listening, check_exposure, data_folder_lock, serve
from placet.server.tokens import LooseTokenFile, ensure_local_token
from placet.sources import own_terms, sources
from placet.stages.reaping import Rules

if TYPE_CHECKING:
    from placet.adapters.providers.container.examining import EngineReport


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
    clock: StoreClock
    ids: RandomIds
    store: Store
    providers: Mapping[str, Provider]
    effects: Effects
    hearing: Hearing
    intake: Intake
    queries: Queries
    uploading: Uploading
    reconciler: Reconciler
    catalogs: Catalogs
    courier: Courier
    vault: Vault
    observer: Observer | None = None
    _loop: "asyncio.Task[None] | None" = None

    def begin(self, ended: Callable[[], None] = lambda: None) -> None:
        """Start moving workloads; what an earlier server left is adopted. ``ended`` is called when that stops."""
        self.catalogs.start()
        if self.observer is None:
            self._loop = asyncio.create_task(self.reconciler.run(), name="reconciler")
            self.courier.start()
        else:
            self._loop = asyncio.create_task(self.observer.run(), name="observer")
        self._loop.add_done_callback(lambda _: ended())

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
        await self.courier.stop()
        await self.catalogs.stop()
        await self.reconciler.stop()
        if self.observer is not None:
            await self.observer.stop()
        if self._loop is not None:
            await asyncio.gather(self._loop, return_exceptions=True)
        for provider in self.providers.values():
            await provider.close()
        await self.store.close()


async def open_app(settings: Settings) -> App:
    """Connect everything. Raises ``SchemaMismatch`` for a database of another version."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    clock, ids = StoreClock(SystemClock()), RandomIds()
    store = make_store(settings.database)
    await store.open()
    clock.set(await store.now_ms())
    artifacts = _artifacts(settings)
    inputs = LocalInputs(settings.storage, _readable(settings), private=_private(settings))
    models = ModelCatalog(hub=HUB if settings.models.hub else None)
    providers = {name: make() for name, make in provider_makers(settings).items()}
    catalogs = Catalogs(sources(settings, clock.now_ms()), clock, chance)
    market = Market(providers, catalogs, own_terms(settings))
    vault = Vault(store, clock, Envelopes(_keys(settings).ring))
    hearing = Hearing(clock, CorpusFile(settings.data_dir / "provider-messages.json"))
    effects = Effects(providers, artifacts, clock, hearing, ObjectSources(_access(settings)).ready, vault)
    reconciler = Reconciler(
        Ports(
            store=store,
            providers=providers,
            effects=effects,
            clock=clock,
            ids=ids,
            resolve_inputs=inputs.resolve,
            offers=market,
            set_clock=clock.set,
        ),
        _options(settings, ids),
    )
    intake = Intake(
        IntakePorts(
            store=store,
            clock=clock,
            ids=ids,
            fingerprint=_Fingerprint(),
            offers=market,
            check=lambda spec: (*unsupported(spec), *inputs.check(spec), *models.check(spec)),
            complete=lambda spec: models.complete(inputs.complete(spec)),
            quote_s=settings.engine.quote_seconds,
            owner=reconciler,
            budgets=reconciler.allowances.fresh,
            secrets=vault.missing,
        )
    )
    link_s = settings.objects.link_seconds
    queries = Queries(
        QueryPorts(store=store, artifacts=artifacts, providers=providers, clock=clock, offers=market, link_s=link_s)
    )
    await _connect(reconciler, queries, store, providers)
    return App(
        settings=settings,
        clock=clock,
        ids=ids,
        store=store,
        providers=providers,
        effects=effects,
        hearing=hearing,
        intake=intake,
        queries=queries,
        uploading=Uploading(store, artifacts, _part_uploads(settings), clock),
        reconciler=reconciler,
        catalogs=catalogs,
        courier=Courier(store, clock, GuardedSender(settings.webhooks.allowed_private_hosts), chance),
        vault=vault,
        observer=_observer(settings, store, providers, effects, clock),
    )


def _keys(settings: Settings) -> KeyPlaces:
    asked = settings.secrets
    return KeyPlaces(
        text=None if asked.key is None else asked.key.get_secret_value(),
        file=asked.key_file,
        own=settings.data_dir / "secret.key" if settings.database.startswith("sqlite") else None,
    )


def _private(settings: Settings) -> tuple[Path, ...]:
    """What no program is shown, whoever asks."""
    return settings.data_dir, settings.artifacts, settings.local_folder


def _artifacts(settings: Settings) -> Artifacts:
    """The folder, or the bucket that is set instead. Raises ``Unusable``."""
    if settings.artifacts_url is None:
        return FileArtifacts(settings.artifacts)
    try:
        place = parse_place(settings.artifacts_url)
    except ValueError as error:
        raise Unusable(f"artifacts_url: {error}") from error
    try:
        from placet.adapters.artifacts.objects import ObjectArtifacts  # most servers have no bucket
    except ImportError as error:
        raise Unusable("artifacts_url needs libraries that are not here: pip install '.[objects]'") from error
    return ObjectArtifacts(place, _access(settings))


def _part_uploads(settings: Settings) -> PartUploads | None:
    """Where machines may send their outputs themselves."""
    if settings.artifacts_url is None or not settings.artifacts_url.startswith("s3://"):
        return None
    from placet.adapters.objects.parts import S3PartUploads

    return S3PartUploads(parse_place(settings.artifacts_url), _access(settings))


def _readable(settings: Settings) -> Readable:
    """Which objects specs may name as inputs. A wrong ``artifacts_url`` was told before."""
    own = None if settings.artifacts_url is None else parse_place(settings.artifacts_url)
    return Readable(prefixes=settings.inputs.object_prefixes, own=own)


def _access(settings: Settings) -> Access:
    asked = settings.objects
    return Access(
        endpoint=asked.endpoint, public_endpoint=asked.public_endpoint, region=asked.region, profile=asked.profile
    )


def _observer(
    settings: Settings, store: Store, providers: Mapping[str, Provider], effects: Effects, clock: StoreClock
) -> Observer | None:
    if not observes(settings):
        return None
    return Observer(store, clock, Reaper(store, providers, effects, clock, Sweeps(rules=Rules(nothing=True))))


def provider_makers(settings: Settings) -> dict[str, Callable[[], Provider]]:
    """How to make each provider that the settings switch on; making one has no effects."""
    clock = SystemClock()
    makers: dict[str, Callable[[], Provider]] = {}
    if settings.local.enabled:
        makers["local"] = lambda: local_provider(settings, clock)
    makers.update(_engine_makers(settings, clock))
    if settings.providers.simulated.enabled:
        from placet.adapters.providers.simulated import simulated_provider  # few servers rehearse

        section, folder = settings.providers.simulated, settings.simulated_folder
        makers["simulated"] = lambda: simulated_provider(section, folder, clock)
    if settings.providers.slurm.enabled:
        from placet.adapters.providers.slurm.making import slurm_provider  # few servers have a cluster

        cluster, hosts = settings.providers.slurm, settings.inputs.allowed_private_hosts
        makers["slurm"] = lambda: slurm_provider(cluster, hosts, clock)
    return makers


async def examined(settings: Settings) -> dict[str, Sequence[Examined]]:
    """What the providers need that can say so, by name; nothing is opened."""
    found: dict[str, Sequence[Examined]] = {}
    for name, make in provider_makers(settings).items():
        examine = getattr(make(), "examine", None)
        if examine is not None:
            found[name] = await examine()
    return found


def _engine_makers(settings: Settings, clock: SystemClock) -> dict[str, Callable[[], Provider]]:
    """The container engines that are set up, and the one that is simply there."""
    from placet.adapters.providers.container.setting_up import engine_at, engine_provider

    makers: dict[str, Callable[[], Provider]] = {}
    hosts = settings.inputs.allowed_private_hosts
    for name, section in [
        ("container", settings.providers.container),
        *((e.name, e) for e in settings.providers.engines),
    ]:
        address = engine_at(section, os.environ)
        if address is not None:
            makers[name] = partial(engine_provider, section, address, name, hosts, clock)
    return makers


def engine_reports(settings: Settings) -> "list[EngineReport]":
    """Whether the container engines can be used, as people are told."""
    from placet.adapters.providers.container.examining import examine

    found = [examine(settings.providers.container, "container", os.environ)]
    return found + [examine(section, section.name, os.environ) for section in settings.providers.engines]


async def _connect(reconciler: Reconciler, queries: Queries, store: Store, providers: Mapping[str, Provider]) -> None:
    """From now on the engine hears of news, from the store and from the providers."""
    store.watch(reconciler.stored_elsewhere, only_elsewhere=True)
    store.watch(queries.stored)
    for provider in providers.values():
        await provider.open(reconciler.hints())


# While this file is in a data folder its servers only look.
OBSERVE = "observe"


def _options(settings: Settings, ids: RandomIds) -> ReconcileOptions:
    engine = settings.engine
    return ReconcileOptions(
        worker=f"{os.uname().nodename}-{os.getpid()}-{ids.nonce()[:8]}",
        owned_max=engine.max_live,
        beat_s=engine.beat_seconds,
        owner_timeout_s=engine.lease_seconds,
        observe_every_s=engine.poll_seconds,
        exploration=settings.placement.exploration,
        quote_wait_s=settings.engine.quote_wait_seconds,
        sweeps=Sweeps(rules=Rules(unknown=engine.delete_unrecorded)),
    )


class EngineFailed(Exception):
    """The engine ended by a fault of its own."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How a server runs: on the unix socket alone or on TCP too, to the end of all work or to a signal."""

    socket_only: bool = False
    until_idle: bool = False
    signals: bool = True
    ready: Callable[[str | None], None] = lambda _: None


def run_server(settings: Settings, serving: Serving) -> None:
    """Serve until told to stop, in this thread.

    Raises:
        CannotServe: another server has the data folder, a socket cannot be had, or it would be exposed.
        SchemaMismatch: the database belongs to another version.
    """
    configure(settings.log.level, settings.log.format)
    listening = _listening(settings, serving)
    check_exposure(listening)
    check_key(_keys(settings).check, listening)
    with data_folder_lock(settings.data_dir, settings.stamp):
        asyncio.run(_serve(settings, serving, listening, asyncio.Event()))


@contextmanager
def serve_embedded(settings: Settings) -> Iterator[Path]:
    """A server on the unix socket alone, in a thread of this process, for as long as the context lasts.

    Raises:
        CannotServe: as ``run_server``.
    """
    configure("error", settings.log.format)
    listening = _listening(settings, Serving(socket_only=True))
    check_key(_keys(settings).check, listening)
    with data_folder_lock(settings.data_dir, settings.stamp), ThreadPoolExecutor(1, "placet-server") as thread:
        begun: Future[Callable[[], object]] = Future()
        ready: Future[str | None] = Future()

        async def main() -> None:
            loop, closing = asyncio.get_running_loop(), asyncio.Event()
            begun.set_result(lambda: loop.call_soon_threadsafe(closing.set))
            serving = Serving(socket_only=True, signals=False, ready=ready.set_result)
            await _serve(settings, serving, listening, closing)

        ended = thread.submit(asyncio.run, main())
        stop = begun.result()
        try:
            waiting: set[Future[Any]] = {ready, ended}
            wait(waiting, return_when=FIRST_COMPLETED)
            if ready.done():
                yield places.socket_path(settings.data_dir)
        finally:
            if not ended.done():
                stop()
            ended.result()


def migrate_database(settings: Settings) -> None:
    """Bring the database to the version of this Placet. Raises ``SchemaMismatch`` when it is newer."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with around(Point.MIGRATION):
        migrate(settings.database)


def backup_database(settings: Settings, target: Path) -> None:
    """Copy the database into a new file. Raises ``CannotCopy``."""
    backup(settings.database, target)


def restore_database(settings: Settings, source: Path) -> str:
    """Make the database of an empty data folder from a copy; its next server observes. The copy's schema version.

    Raises:
        CannotCopy: there is a database already, or the copy cannot be used.
        CannotServe: a server has the data folder.
    """
    version = check(source)
    with data_folder_lock(settings.data_dir):
        (settings.data_dir / OBSERVE).write_text("restored\n")  # before there is anything that could be acted on
        restore(settings.database, source)
    return version


def observes(settings: Settings) -> bool:
    """Does a server of these settings only look?"""
    return settings.engine.observe or (settings.data_dir / OBSERVE).exists()


def end_observing(settings: Settings) -> None:
    """The next server of this data folder acts, unless its settings say otherwise."""
    (settings.data_dir / OBSERVE).unlink(missing_ok=True)


async def _serve(settings: Settings, serving: Serving, listening: Listening, closing: asyncio.Event) -> None:
    app = await _connected(settings)
    try:
        token = places.token_path(settings.data_dir)
        try:
            await ensure_local_token(app.store, app.ids, app.clock.now_ms(), token)
        except LooseTokenFile as error:
            raise CannotServe(str(error)) from error
        rest = build_rest(_doors(app, closing))
        await _succeed(app.reconciler, settings.data_dir / "worker")
        if app.observer is None:
            await rewrap(app.vault)
        app.begin(ended=closing.set)  # a server that accepts and moves nothing is worse than one that is gone

        async def idle() -> bool:
            return rest.quiet() and await app.idle()

        control = Control(
            closing=closing,
            ready=serving.ready,
            idle=idle if serving.until_idle else None,
            idle_exit_s=settings.server.idle_exit_seconds,
            signals=serving.signals,
        )
        await serve(rest, listening, control)
        failure = await app.failed()
        if failure is not None:
            raise EngineFailed("the engine ended by a fault; its workloads are safe, start again") from failure
    finally:
        await app.close()


async def _connected(settings: Settings) -> App:
    try:
        await asyncio.to_thread(migrate_database, settings)
        return await open_app(settings)
    except StoreFull as error:
        raise CannotServe("no space left on the disk of the database: free some in the data folder") from error
    except (StoreError, ValueError) as error:
        raise CannotServe(f"the database cannot be used: {error}") from error
    except Unusable as error:
        raise CannotServe(f"an object store cannot be used: {error}") from error
    except ProviderError as error:
        raise CannotServe(f"a provider cannot be used: {error}") from error


async def _succeed(reconciler: Reconciler, note: Path) -> None:
    """What the last server of this data folder owned is free at once: the folder's lock proves that it is dead."""
    last = await asyncio.to_thread(lambda: note.read_text() if note.exists() else "")
    if last:
        await reconciler.succeed(last)
    with around(Point.WORKER_NOTE):
        await asyncio.to_thread(note.write_text, reconciler.worker)


def _doors(app: App, closing: asyncio.Event) -> Doors:
    async def not_ready() -> tuple[str, ...]:
        return ("engine",) if await app.failed() is not None else ()

    return Doors(
        intake=app.intake,
        queries=app.queries,
        ledgers=Ledgers(app.store, app.clock),
        budgets=Budgets(app.store, app.clock, app.reconciler.allowances),
        redelivering=Redelivering(app.store, app.clock, app.effects, app.providers, app.reconciler.touched),
        resolving=Resolving(app.store, app.clock, app.reconciler.touched),
        uploading=app.uploading,
        hearing=app.hearing,
        orphans=Orphans(app.store, app.clock, (app.observer or app.reconciler).sweep_now),
        hooks=Hooks(app.store, app.clock, app.ids, app.courier.sender, app.courier.hurry),
        vault=app.vault,
        store=app.store,
        clock=app.clock,
        ids=app.ids,
        allowed_hosts=frozenset(app.settings.server.allowed_hosts),
        observing=app.observer is not None,
        not_ready=not_ready,
        closing=closing,
    )


def _listening(settings: Settings, serving: Serving) -> Listening:
    server = settings.server
    return Listening(
        data_dir=settings.data_dir,
        host=None if serving.socket_only else server.host,
        port=server.port,
        tls_certificate=server.tls_certificate,
        tls_key=server.tls_key,
        allow_remote_without_tls=server.allow_remote_without_tls,
        shutdown_s=server.shutdown_seconds,
    )
