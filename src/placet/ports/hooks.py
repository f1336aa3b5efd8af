"""How a message leaves for an address that a tenant named."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back: a status, or why there is none. ``never`` says that no later try can do better."""

    status: int | None = None
    problem: str = ""
    never: bool = False


class Sender(Protocol):
    """Sends at most once per call, follows no redirect, and keeps nothing of the answer but its status."""

    def refusal(self, url: str) -> str | None:
        """Why such an address is never sent to; ``None`` when it may be. It looks nothing up."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """One POST within a bounded time. Whatever goes wrong is in the answer."""
