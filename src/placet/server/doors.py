"""What every route works with, and the few steps they share. The composition root fills it in."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from placet.engine.budgets import Budgets
from placet.engine.hearing import Hearing
from placet.engine.hooks import Hooks
from placet.engine.intake import Intake
from placet.engine.ledgers import Ledgers
from placet.engine.orphans import Orphans
from placet.engine.queries import Queries
from placet.engine.redelivering import Redelivering
from placet.engine.resolving import Resolving
from placet.engine.uploading import Uploading
from placet.engine.vault import Vault
from placet.ports.ambient import Clock, Ids
from placet.ports.store import Store
from placet.server import problems
from placet.server.metrics import Metrics
from placet.server.streams import EventStream, StreamCounter, StreamEnds
from placet.server.table import principal_of
from placet.server.tokens import TokenGate


async def _always_ready() -> tuple[str, ...]:
    return ()


@dataclass(kw_only=True)
class Doors:
    """The engine's face and the server's own state. ``not_ready`` gives the reasons, none when all is well."""

    intake: Intake
    queries: Queries
    orphans: Orphans
    hooks: Hooks
    vault: Vault
    resolving: Resolving
    redelivering: Redelivering
    ledgers: Ledgers
    uploading: Uploading
    hearing: Hearing
    budgets: Budgets
    store: Store
    clock: Clock
    ids: Ids
    allowed_hosts: frozenset[str] = frozenset()
    observing: bool = False
    not_ready: Callable[[], Awaitable[tuple[str, ...]]] = _always_ready
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    metrics: Metrics = field(default_factory=Metrics)
    streams: StreamCounter = field(default_factory=StreamCounter)

    def __post_init__(self) -> None:
        self.gate = TokenGate(self.store, self.clock)

    def stream(self, request: Request, source: AsyncIterator[bytes]) -> EventStream:
        """A stream that ends with the token that opened it."""
        principal = principal_of(request)
        self.streams.take(principal)
        ends = StreamEnds(
            still_valid=lambda: self.gate.still_valid(principal),
            closing=self.closing,
            on_close=lambda: self.streams.give_back(principal),
        )
        return EventStream(source, ends)


def actor_of(request: Request) -> str:
    """Who is written into the account for what this request does."""
    return f"token:{principal_of(request).token_id}"


def workload_id_of(request: Request) -> str:
    """The workload that the path names."""
    return str(request.path_params["workload_id"])


def reply(model: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document of the contract."""
    return Response(model.model_dump_json().encode(), status, headers=headers, media_type="application/json")


def no_workload() -> problems.Refusal:
    """The same words for what does not exist and for what belongs to somebody else."""
    return problems.Refusal(
        problems.NOT_FOUND, detail="there is no such workload", fix="check the id; `placet ls` lists workloads"
    )


def wants_stream(request: Request) -> bool:
    """Does the client ask for server-sent events?"""
    return "text/event-stream" in request.headers.get("accept", "")
