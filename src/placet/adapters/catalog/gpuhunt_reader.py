"""A program of its own that asks gpuhunt and writes what it says, one JSON value a line; it ends by itself in time.

usage: python -m placet.adapters.catalog.gpuhunt_reader SECONDS PROVIDER...

Lines: a list of ``ITEM`` fields; ``{"note": TEXT}`` for what the library warned of; and for each provider one
``{"read": NAME, "observed_ms": MS}`` or ``{"failed": NAME, "why": TEXT}``. In the server's own process the library
could neither be stopped in time nor be kept from the server's memory.
"""

import importlib
import json
import logging
import os
import re
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ITEM = (
    "instance_name", "location", "price", "cpu", "memory", "gpu_vendor", "gpu_count", "gpu_name", "gpu_memory", "spot",
    "disk_size",
)  # fmt: skip
FOLDER = "GPUHUNT_CATALOG_DIR"
NOTES_MAX = 20
TEXT_MAX = 300


def main() -> None:
    """Ask for each provider by itself, so that one that fails costs only its own listings."""
    signal.alarm(int(sys.argv[1]) + 1)
    notes = _Notes(sys.argv[2:])
    logging.getLogger("gpuhunt").addHandler(notes)
    try:
        catalog = _catalog()
    except Exception as error:  # noqa: BLE001 - whatever the library raises, it is told and not thrown
        for provider in sys.argv[2:]:
            _write({"failed": provider, "why": _short(error)})
        return
    for provider in sys.argv[2:]:
        try:
            items = catalog.query(provider=provider)
        except Exception as error:  # noqa: BLE001 - whatever a provider's client raises, the others are asked
            _write({"failed": provider, "why": _short(error)})
            continue
        for item in items:
            _write([getattr(item, field) for field in ITEM])
        if items:
            _write({"read": provider, "observed_ms": _observed_ms(catalog, provider)})
        else:
            _write({"failed": provider, "why": "gpuhunt lists nothing of it"})
    for note in notes.texts:
        _write({"note": note})


def _catalog() -> Any:
    gpuhunt: Any = importlib.import_module("gpuhunt")  # an extra, and without types

    # From a folder nothing is downloaded, and the library must not try to.
    return gpuhunt.Catalog(auto_reload=False) if os.environ.get(FOLDER) else gpuhunt.default_catalog()


def _observed_ms(catalog: Any, provider: str) -> int:
    """When the list was made: the date of its file or in its version; now for what is asked live."""
    folder = os.environ.get(FOLDER)
    if folder:
        return int((Path(folder) / f"{provider}.csv").stat().st_mtime * 1000)
    version = str(getattr(getattr(catalog, "catalog", {}).get(provider), "version", ""))
    dated = re.match(r"20[0-9]{6}", version)
    try:
        made = datetime.strptime(dated[0], "%Y%m%d").replace(tzinfo=UTC) if dated else datetime.now(UTC)
    except ValueError:
        made = datetime.now(UTC)
    return int(min(made.timestamp(), time.time()) * 1000)


class _Notes(logging.Handler):
    """The first warnings of the library about what was asked, such as rows that it passed over.

    It also warns of every provider that nobody asked for.
    """

    def __init__(self, providers: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._providers = providers

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        place = record.name.rpartition(".")[2]
        if len(self.texts) < NOTES_MAX and any(name == place or name in text for name in self._providers):
            self.texts.append(text[:TEXT_MAX])


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:TEXT_MAX]


def _write(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    main()
