"""The REST application in this process: real store, engine and routes over a scripted provider, without a socket."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placet.adapters.ambient import RandomIds, SystemClock
from placet.adapters.hooks import GuardedSender
from placet.adapters.vault import Envelopes, KeyPlaces
from placet.contract.words import Scope
from placet.domain.allocations import Launch
from placet.engine.budgets import Budgets
from placet.engine.effects import Effects
from placet.engine.hearing import Hearing
from placet.engine.hooks import Hooks
from placet.engine.ledgers import Ledgers
from placet.engine.orphans import Orphans
from placet.engine.redelivering import Redelivering
from placet.engine.resolving import Resolving
from placet.engine.uploading import Uploading
from placet.engine.vault import Vault
from placet.server.doors import Doors
from placet.server.rest import build_rest
from placet.server.tokens import Wish, issue
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.asgi import Answer, call, http_scope
from tests.support.worlds import ControlPlane, start

ANSWERED_WITHIN_S = 20.0
ALL = tuple(Scope)


def script_of(launch: Launch) -> Script:
    """What a workload does is in its name."""
    name = launch.spec.name or ""
    if name.startswith("hold"):
        return Script(hold=True)
    return Script(exit_code=3) if name.startswith("fail") else Script(logs=(("stdout", b"hello\n"),))


def _nobody_is_told() -> None:
    """No courier runs here."""


@dataclass(kw_only=True)
class Api:
    """One application; requests are made from any thread, and answered on the one in which its loop runs."""

    folder: "tempfile.TemporaryDirectory[str]" = field(default_factory=tempfile.TemporaryDirectory)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self.loop.run_forever, name="api", daemon=True)
        self._thread.start()
        self._do(self._open())

    async def _open(self) -> None:
        folder, clock, ids = Path(self.folder.name), SystemClock(), RandomIds()
        provider = ScriptedProvider(clock, script_of)
        self.plane: ControlPlane = await start(f"sqlite:///{folder / 'placet.db'}", folder, provider)
        plane, providers = self.plane, {provider.name: provider}
        hearing = Hearing(clock)
        effects = Effects(providers, plane.queries._ports.artifacts, clock, hearing)
        doors = Doors(
            intake=plane.intake,
            queries=plane.queries,
            ledgers=Ledgers(plane.store, clock),
            redelivering=Redelivering(plane.store, clock, effects, providers, plane.reconciler.touched),
            resolving=Resolving(plane.store, clock, plane.reconciler.touched),
            orphans=Orphans(plane.store, clock, plane.reconciler.sweep_now),
            hooks=Hooks(plane.store, clock, ids, GuardedSender(()), _nobody_is_told),
            vault=Vault(plane.store, clock, Envelopes(KeyPlaces(own=folder / "secret.key").ring)),
            uploading=Uploading(plane.store, plane.queries._ports.artifacts, None, clock),
            hearing=hearing,
            budgets=Budgets(plane.store, clock, plane.reconciler.allowances),
            store=plane.store,
            clock=clock,
            ids=ids,
        )
        self.app = build_rest(doors)
        reads = (Scope.READ,)
        for name, tenant, scopes in (("ours", "one", ALL), ("theirs", "two", ALL), ("reader", "one", reads)):
            issued = issue(Wish(name=name, tenant=tenant, scopes=scopes), ids, clock.now_ms())
            await plane.store.add_token(issued.token)
            self.tokens[name] = issued.text

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = "ours",
        body: bytes | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One exchange. ``token`` is a name of ``tokens``, else what is sent as one."""
        sent = dict(headers or {})
        if token is not None:
            sent.setdefault("authorization", f"Bearer {self.tokens.get(token, token)}")
        payload = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if payload:
            sent.setdefault("content-type", "application/json")
            sent.setdefault("content-length", str(len(payload)))
        scope = http_scope(method, path, sent.items())
        return self._do(call(self.app, scope, [payload] if payload else []))

    def close(self) -> None:
        self._do(self.plane.kill())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(ANSWERED_WITHIN_S)
        self.loop.close()
        self.folder.cleanup()

    def _do(self, work: Any) -> Any:
        found: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return found.result(ANSWERED_WITHIN_S)
