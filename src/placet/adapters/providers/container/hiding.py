"""What is hidden in a log as it is read: the engine's own log holds what the program wrote, secrets included."""

import json
from collections import OrderedDict

from placet.adapters.providers.container import files, names
from placet.adapters.providers.container.api import EngineApi
from placet.adapters.providers.container.preparing import REQUEST
from placet.runner.masking import Mask, Masked

KEPT = 256


class NothingToHideBy(Exception):
    """The attempt's request cannot be read, so nobody knows what must not be shown."""


class Hiding:
    """Masks of attempts, made from the requests that the engine keeps."""

    def __init__(self, api: EngineApi) -> None:
        self._api = api
        self._masks: OrderedDict[str, Mask | None] = OrderedDict()

    async def masked(self, key: str) -> Masked | None:
        """The way for one reading of its log, from the start; ``None`` where it has no secrets.

        Raises ``NothingToHideBy``, and what a call of the engine may raise.
        """
        if key not in self._masks:
            kept = await files.small_files(self._api, key, names.PLACE)
            try:
                secrets: dict[str, str] = json.loads(kept[REQUEST])["secrets"]
            except (KeyError, ValueError):
                raise NothingToHideBy from None
            self._masks[key] = Mask(secrets.values()) if secrets else None
            if len(self._masks) > KEPT:
                self._masks.popitem(last=False)
        mask = self._masks[key]
        return None if mask is None else Masked(mask)
