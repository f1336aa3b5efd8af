"""What is left at an engine for a while and then deleted: names that are used up, and checkpoints of ended workloads.

It touches nothing of an attempt that is there.
"""

from collections.abc import Mapping

from placet.adapters.providers.container import names
from placet.adapters.providers.container.marks import Marks
from placet.domain.units import SECOND_MS

DAY_MS = 86_400 * SECOND_MS
EVERY_MS = 3_600 * SECOND_MS


async def tidy(marks: Marks, checkpoint_days: float, now_ms: int) -> list[str]:
    """Delete what is old enough; the names of what was deleted. Raises what a call of the engine raises."""
    noted = await marks.listed(f"{names.KIND}={names.Kind.MARK.value}")
    shared = await marks.listed(f"{names.KIND}={names.Kind.CHECKPOINTS.value}")
    attempts = await marks.listed(f"{names.KIND}={names.Kind.ATTEMPT.value}")
    old = overdue(noted, shared, attempts, checkpoint_days, now_ms)
    return [volume for volume in old if await marks.drop(volume)]


def overdue(
    noted: list[Mapping[str, str]],
    shared: list[Mapping[str, str]],
    attempts: list[Mapping[str, str]],
    checkpoint_days: float,
    now_ms: int,
) -> list[str]:
    """The volumes to delete. A mark without a time stays, and so does one that tells the age of checkpoints."""
    live = {each.get(names.KEY) for each in attempts}
    working = {each.get(names.WORKLOAD) for each in attempts}
    kept_ms = int(checkpoint_days * DAY_MS)
    last_ms: dict[str, int] = {}
    for each in noted:
        workload = each.get(names.WORKLOAD, "")
        last_ms[workload] = max(last_ms.get(workload, 0), _made_ms(each))
    old, waiting = [], set()
    for each in shared:
        workload = each.get(names.WORKLOAD, "")
        if workload in working or not last_ms.get(workload) or now_ms - last_ms[workload] < kept_ms:
            waiting.add(workload)
        else:
            old.append(names.checkpoints(each.get(names.DEPLOYMENT, ""), workload))
    for each in noted:
        made_ms, which = _made_ms(each), each.get(names.MARK, "")
        aged = made_ms and now_ms - made_ms >= DAY_MS
        if (
            aged
            and which in set(names.Mark)
            and each[names.KEY] not in live
            and each.get(names.WORKLOAD) not in waiting
        ):
            old.append(names.mark(each[names.KEY], names.Mark(which)))
    return old


def _made_ms(labels: Mapping[str, str]) -> int:
    return int(labels.get(names.CREATED) or 0)
