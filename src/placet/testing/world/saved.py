"""Worlds kept for ever because they once found a fault: a file each, with its name and why it is kept."""

import json
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from placet.domain.spec import Repeat
from placet.testing.world.options import Options, Wish


@dataclass(frozen=True, kw_only=True)
class Saved:
    """One world and its story."""

    name: str
    reason: str
    options: Options


def read(path: Path) -> Saved:
    """The world of a file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    options = document["options"]
    wishes = tuple(_wish(wish) for wish in options.pop("wishes"))
    return Saved(name=path.stem, reason=document["reason"], options=Options(**options, wishes=wishes))


def write(path: Path, reason: str, options: Options) -> None:
    """Keep a world."""
    document = {"reason": reason, "options": asdict(options)}
    path.write_text(json.dumps(document, indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8")


def _wish(document: dict[str, Any]) -> Wish:
    wish = Wish(**document)
    cap = document["cap_usd"]
    return replace(wish, repeat=Repeat(document["repeat"]), cap_usd=None if cap is None else Decimal(cap))
