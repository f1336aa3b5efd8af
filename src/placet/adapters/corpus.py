"""Messages that no table knows in one file that only its owner reads. It is a help to people, not part of any truth."""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from placet.domain.unheard import Unheard

FILE_MAX_BYTES = 1024 * 1024


class CorpusFile:
    """One JSON document, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Sequence[Unheard]:
        """What was kept last; nothing where that cannot be read."""
        try:
            if self._path.stat().st_size > FILE_MAX_BYTES:
                return ()
            return tuple(Unheard(**one) for one in json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return ()

    def keep(self, messages: Sequence[Unheard]) -> None:
        """Replace it; where that fails the old one stays."""
        new = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump([asdict(one) for one in messages], file, ensure_ascii=True)
            new.replace(self._path)
