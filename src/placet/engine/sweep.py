"""Finds at the providers what no attempt stands for any more, and deletes it. It touches nothing that may be wanted.

A create that lands after its attempt was given up leaves an allocation that nobody looks at: its runner is refused
the permit, and what is left of it is found only in the provider's own list.
"""

from collections.abc import Mapping

from placet.domain.allocations import Handle
from placet.domain.errors import ProviderError
from placet.domain.records import Attempt
from placet.domain.states import AttemptState
from placet.failpoints import Point, passing
from placet.ports.provider import Provider
from placet.ports.store import Store
from placet.stages.dispatch import workload_of

PAGE = 500


async def sweep(store: Store, providers: Mapping[str, Provider], deployment: str) -> tuple[Handle, ...]:
    """Release every listed allocation of an attempt that is recorded as over and gone; what was released.

    What the store does not know at all is left alone: the store may be the one that forgot. Raises ``StoreError``.
    """
    released: list[Handle] = []
    for provider in providers.values():
        try:
            listed = {handle.key: handle async for handle in provider.owned(deployment)}
            for handle in await _abandoned(store, listed):
                await passing(Point.SWEEP, provider.release(handle))
                released.append(handle)
        except ProviderError:
            continue  # the next sweep looks again
    return tuple(released)


async def _abandoned(store: Store, listed: Mapping[str, Handle]) -> list[Handle]:
    ids = sorted({workload_id for key in listed if (workload_id := workload_of(key)) is not None})
    found: list[Handle] = []
    for start in range(0, len(ids), PAGE):
        for record in await store.load(ids[start : start + PAGE]):
            over = (attempt for attempt in record.attempts if attempt.key in listed and _over(attempt))
            found += [listed[attempt.key] for attempt in over]
    return found


def _over(attempt: Attempt) -> bool:
    """Nothing of it should be left: it was refused, or proven gone."""
    return attempt.state is AttemptState.REFUSED or (attempt.final and attempt.released_ms is not None)
