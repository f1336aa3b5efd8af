"""Webhooks: who wants to hear of a tenant's workloads, and what became of each message to them."""

import hashlib
from dataclasses import dataclass

from placet.domain.states import DispatchState


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One address of one tenant. ``generation`` numbers its signing keys; the one before it signs too until
    ``former_until_ms``. Everything up to event ``after_seq`` has its messages. ``revision`` grows with every write.

    ``paused_ms`` is when sending to it ended, ``paused_why`` the reason that people read.
    """

    id: str
    tenant: str
    url: str
    states: tuple[str, ...]
    created_ms: int
    created_by: str
    generation: int = 1
    former_until_ms: int | None = None
    after_seq: int = 0
    paused_ms: int | None = None
    paused_why: str = ""
    revision: int = 0


@dataclass(frozen=True, kw_only=True)
class Dispatch:
    """One message to one hook, and how far it got. ``due_ms`` is when it is sent next, ``None`` when it is not.

    ``status`` is the last answer's, ``None`` where there was none; ``problem`` says then why.
    """

    hook_id: str
    seq: int
    workload_id: str
    kind: str
    body: str
    created_ms: int
    state: DispatchState
    due_ms: int | None
    tries: int = 0
    sent_ms: int | None = None
    status: int | None = None
    problem: str = ""

    @property
    def id(self) -> str:
        """The same for the same event and hook, whoever writes it; another for another hook."""
        return message_id(self.hook_id, self.seq)


def message_id(hook_id: str, seq: int) -> str:
    """The id under which one event is told to one hook, at every try."""
    return "msg_" + hashlib.blake2b(f"{hook_id}\0{seq}".encode(), digest_size=15).hexdigest()
