"""The only door for state: every transition of every workload passes here on its way to the store."""

from collections.abc import Sequence

from placet.domain.errors import ForbiddenMove
from placet.domain.records import Transition
from placet.domain.states import WORKLOAD_FINAL
from placet.failpoints import passing
from placet.ports.store import Store


async def apply(store: Store, transitions: Sequence[Transition]) -> Sequence[bool]:
    """Write what still holds; ``False`` marks what does not. Raises ``ForbiddenMove`` on a transition that lies."""
    for transition in transitions:
        _check(transition)
    return await passing(transitions, store.apply(transitions))


def _check(transition: Transition) -> None:
    """What no caller may ask for, whatever the store holds."""
    before, after = transition.expect, transition.workload
    if after.revision != before.revision + 1:
        raise ForbiddenMove(f"{after.id}: revision {before.revision} cannot become {after.revision}")
    if before.state in WORKLOAD_FINAL and after.state is not before.state:
        raise ForbiddenMove(f"{after.id}: {before.state} is final")
    ends = after.state in WORKLOAD_FINAL and before.state not in WORKLOAD_FINAL
    if ends != (transition.result is not None):
        raise ForbiddenMove(f"{after.id}: a result is written with the final state and at no other time")
    if after.state is not before.state and not transition.events:
        raise ForbiddenMove(f"{after.id}: a move without an event")
