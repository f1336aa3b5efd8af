"""What the simulated provider is told; plain values, no reading of files or environment."""

import json
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path

from placet.adapters.providers.simulated.behaviour import Behaviour
from placet.adapters.providers.simulated.offers import ROWS, Row

UNIT = "_seconds"


@dataclass(frozen=True, kw_only=True)
class SimulatedOptions:
    """``folder`` holds the simulated cloud. ``for_all``: workloads that do not name the provider may come here too.

    ``promised_...`` is what its card says; a behaviour may break the promise.
    """

    folder: Path
    name: str = "simulated"
    for_all: bool = False
    promised_visibility_s: float = 5.0
    promised_late_create_s: float = 5.0
    behaviour: Behaviour = field(default_factory=Behaviour)
    rows: tuple[Row, ...] = ROWS


def behaviour_of(stated: str, otherwise: Behaviour) -> Behaviour:
    """The behaviour that a JSON text of options states; what it does not state is as it is otherwise.

    Raises:
        ValueError: there is an option of another name or kind; the text comes from a newer version.
    """
    given = json.loads(stated)
    kinds = {each.name: each.type for each in fields(Behaviour)}
    changes: dict[str, object] = {}
    for option, value in given.items():
        name = option.removesuffix(UNIT) + "_s" if option.endswith(UNIT) else option
        if name not in kinds:
            raise ValueError(f"there is no option {option!r}")
        changes[name] = _of_kind(str(kinds[name]), value)
    return replace(otherwise, **changes)  # type: ignore[arg-type]  # the fields of Behaviour, by name and kind


def _of_kind(kind: str, value: object) -> object:
    """Numbers come as texts, exactly as they were written."""
    if "float" in kind:
        return float(str(value))
    if "Decimal" in kind:
        return Decimal(str(value))
    return value
