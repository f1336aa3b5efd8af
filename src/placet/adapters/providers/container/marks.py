"""Facts about an attempt, kept at the engine as volumes: the first who writes one is the one who wrote it."""

import secrets
from collections.abc import Mapping

from placet.adapters.providers.container import names
from placet.adapters.providers.container.api import EngineApi, Refused, named
from placet.domain.failures import Cause

WRITER = "placet.writer"


class Marks:
    """Reads and writes them."""

    def __init__(self, api: EngineApi) -> None:
        self._api = api

    async def known(self, key: str) -> names.Known:
        """What is written down about one key."""
        return names.known(await self.listed(f"{names.KEY}={key}"))

    async def listed(self, *labels: str) -> list[Mapping[str, str]]:
        """The labels of all volumes that bear these."""
        answer = await self._api.get("/volumes", filters={"label": list(labels)})
        found = [volume.get("Labels") or {} for volume in answer.get("Volumes") or []]
        # Podman lists what bears any of them.
        wanted = dict(label.partition("=")[::2] for label in labels)
        return [each for each in found if all(each.get(name) == value for name, value in wanted.items())]

    async def put(
        self,
        key: str,
        which: names.Mark,
        labels: Mapping[str, str],
        *,
        cause: Cause | None = None,
        says: str = "",
        at_ms: int = 0,
    ) -> bool:
        """Write a fact down; true for the one who did so first."""
        writer = secrets.token_hex(8)
        kept = {
            **{name: labels[name] for name in (names.DEPLOYMENT, names.WORKLOAD) if name in labels},
            names.KEY: key,
            names.KIND: names.Kind.MARK.value,
            names.MARK: which.value,
            names.CAUSE: cause.value if cause else "",
            names.SAYS: says[: names.SAYS_MAX],
            names.CREATED: str(at_ms),
            WRITER: writer,
        }
        made = await self._api.post("/volumes/create", {"Name": names.mark(key, which), "Labels": kept})
        return bool((made.get("Labels") or {}).get(WRITER) == writer)

    async def share(self, deployment: str, workload_id: str) -> None:
        """The volume of a workload's checkpoints, there from its first attempt on. Idempotent."""
        labels = {
            names.KIND: names.Kind.CHECKPOINTS.value,
            names.DEPLOYMENT: deployment,
            names.WORKLOAD: workload_id,
        }
        await self._api.post("/volumes/create", {"Name": names.checkpoints(deployment, workload_id), "Labels": labels})

    async def drop(self, volume: str) -> bool:
        """Delete a volume; true when it is gone."""
        try:
            await self._api.delete(named("volumes", volume), force=True)
        except Refused as refusal:
            if refusal.status == 409:
                return False
            if refusal.status != 404:
                raise
        return True
