"""A provider of compute. Every verb but ``submit`` is idempotent and safe to repeat; none polls or waits by itself."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from placet.domain.allocations import (
    ContractCard,
    FoundOutput,
    Handle,
    Launch,
    LogChunk,
    Observation,
    PermitRequest,
)
from placet.domain.offers import Offer


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What a provider with a live connection may tell; each is a reason to look, never evidence by itself.

    ``permit_wanted`` expects a later ``answer_permit``. ``changed`` carries what was observed. ``capacity`` says that
    something became free.
    """

    permit_wanted: Callable[[PermitRequest], None]
    changed: Callable[[Observation], None]
    capacity: Callable[[], None]


class Rehearsing(Protocol):
    """What an adapter may offer besides, where its programs and its faults can be told what to do."""

    def rehearsed(self, launch: Launch, what: str) -> Launch | None:
        """The launch so changed that it behaves so, or meets that fault; ``None`` where it cannot.

        The words are those of ``placet.testing.conformance.provider_bench``: ``Behaviour`` and ``Fault``.
        """


@dataclass(frozen=True, kw_only=True)
class Examined:
    """One thing that a provider needs: its state (``ok``, ``missing``, ``warning``, or ``off`` for not looked at), what
    was found, what that means, and how to mend it."""

    name: str
    state: str
    found: str
    means: str = ""
    fix: str = ""


class Examining(Protocol):
    """What an adapter may offer besides, where much has to be in place before it works."""

    async def examine(self) -> Sequence[Examined]:
        """Look at all that it needs, without being open; ends within about a minute and leaves nothing."""


class Provider(Protocol):
    """The verbs, a contract card, and hints."""

    @property
    def name(self) -> str:
        """The name in specs, offers and records."""

    @property
    def card(self) -> ContractCard:
        """What this provider promises."""

    async def open(self, hints: Hints) -> None:
        """Connect; effects only here, not at construction. Raises ``AuthFailed`` or ``Unavailable``."""

    async def close(self) -> None:
        """Disconnect; what runs goes on running. Idempotent."""

    def offers(self) -> Sequence[Offer]:
        """What is known now, without waiting; each with its age."""

    async def submit(self, launch: Launch) -> Handle:
        """Send one create. The only call that may create cost.

        Raises ``NoCapacity``, ``QuotaExceeded``, ``InvalidRequest``, ``AuthFailed``, ``RateLimited``, ``Unavailable``
        (all: nothing was created) or ``OutcomeUnknown`` (look with ``find`` before anything else).
        """

    async def find(self, key: str) -> Sequence[Handle]:
        """What carries this key, ended ones included while the provider remembers them. Raises ``Unavailable``."""

    async def observe(self, handles: Sequence[Handle]) -> Sequence[Observation]:
        """One observation per handle, in order; ``GONE`` for what is not there. Raises ``Unavailable``."""

    async def answer_permit(self, request: PermitRequest, granted: bool, reason: str) -> None:
        """Tell the runner whether it may start. Idempotent."""

    async def cancel(self, handle: Handle, grace_s: float) -> None:
        """Ask to stop; succeeds for what is stopped, gone or never started. The effect is seen by ``observe``."""

    async def release(self, handle: Handle) -> bool:
        """Delete all that can cost or run; ``True`` only when it is proven gone. Idempotent."""

    def owned(self, deployment: str) -> AsyncIterator[Handle]:
        """Everything at the provider that carries our deployment id."""

    def logs(self, handle: Handle, stream: str, offset: int) -> AsyncIterator[LogChunk]:
        """Bytes of one stream from an offset to what is there now; the last chunk of a sealed stream is ``final``."""

    def read_output(self, handle: Handle, found: FoundOutput, offset: int) -> AsyncIterator[bytes]:
        """The bytes of one collected output from an offset to its end, in pieces of bounded size.

        Where the card says that outputs are files, the engine takes over the file at ``found.location`` instead.
        Raises ``FileNotFoundError`` when it is not there any more, ``Unavailable`` when the provider cannot be asked.
        """
