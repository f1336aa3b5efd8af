"""What a list says of an attempt when little is known of it."""

import pytest

from placet.cli.commands.looking import took
from placet.contract.api import AttemptView, PlacementView

AT = "2027-01-31T18:00:0{}.000Z"
BEGAN, EXITED, ENDED = map(AT.format, (1, 3, 5))


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ({"phases_ms": {"running": 1500, "collecting": 20}}, "1.5 s"),
        ({"phases_ms": {"running": 0}, "finished_at": ENDED}, "0 ms"),
        ({"phases_ms": {"exited": 0}, "started_at": BEGAN, "finished_at": ENDED}, "at most 4.0 s"),
        ({}, "-"),
        ({"started_at": BEGAN}, "-"),
        ({"finished_at": ENDED}, "unknown"),
        ({"started_at": BEGAN, "finished_at": ENDED}, "at most 4.0 s"),
        ({"started_at": BEGAN, "exited_at": EXITED, "finished_at": ENDED}, "2.0 s"),
        ({"started_at": ENDED, "exited_at": BEGAN, "finished_at": ENDED}, "0 ms"),
    ],
)
def test_how_long_it_took_is_not_invented(known: dict[str, object], shown: str) -> None:
    placement = PlacementView(provider="p", offer="o", expected_cost_usd="0")
    view = AttemptView.model_validate(
        {"epoch": 1, "state": "", "desired": "", "provider": "p", "placement": placement, "created_at": BEGAN, **known}
    )
    assert took(view) == shown
