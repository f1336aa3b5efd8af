"""What a list says of an attempt when little is known of it."""

import pytest

from placet.cli.commands.looking import cost, price, took
from placet.cli.commands.orphans import done
from placet.contract.api import AttemptView, PlacementView
from placet.contract.orphans import OrphanView

AT = "2027-01-31T18:00:0{}.000Z"
BEGAN, EXITED, ENDED = map(AT.format, (1, 3, 5))


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ({"phases_ms": {"running": 1500, "collecting": 20}}, "1.5 s"),
        ({"phases_ms": {"running": 0}, "finished_at": ENDED}, "0 ms"),
        ({"phases_ms": {"exited": 0}, "started_at": BEGAN, "finished_at": ENDED}, "at most 4.0 s"),
        ({}, "-"),
        ({"live_ms": 90_000, "phases_ms": {"queued": 10}}, "1m 30s so far"),
        ({"started_at": BEGAN}, "-"),
        ({"finished_at": ENDED}, "unknown"),
        ({"started_at": BEGAN, "finished_at": ENDED}, "at most 4.0 s"),
        ({"started_at": BEGAN, "exited_at": EXITED, "finished_at": ENDED}, "2.0 s"),
        ({"started_at": ENDED, "exited_at": BEGAN, "finished_at": ENDED}, "0 ms"),
    ],
)
def test_how_long_it_took_is_not_invented(known: dict[str, object], shown: str) -> None:
    assert took(_view(known)) == shown


def _view(known: dict[str, object]) -> AttemptView:
    placement = PlacementView(provider="p", offer="o", expected_cost_usd="0", price_usd_per_hour="1.00")
    return AttemptView.model_validate(
        {"epoch": 1, "state": "", "desired": "", "provider": "p", "placement": placement, "created_at": BEGAN, **known}
    )


def test_the_cost_says_how_sure_it_is() -> None:
    assert cost(_view({"cost_usd": "0.50"})) == "$0.50"
    assert cost(_view({"cost_usd": "0.50", "live_ms": 1})) == "$0.50 so far"
    assert cost(_view({"cost_usd": "0.50", "cost_at_most": True})) == "at most $0.50"


def test_a_price_that_is_not_the_offered_one_is_told_beside_it() -> None:
    assert price(_view({"price_usd_per_hour": "1.0"})) == "$1.00"
    assert price(_view({"price_usd_per_hour": "1.75"})) == "$1.75, offered $1.00"
    assert price(_view({})) == "$1.00", "a server that does not say"


def test_what_the_request_to_delete_an_orphan_did_is_told() -> None:
    orphan = OrphanView(
        id="or_1", provider="p", key="k", native_id="n", region="", state="releasing", reason="no_record", why="",
        next="", first_seen_at=BEGAN, last_seen_at=BEGAN, requested_at=EXITED, requested_by="token:a",
    )  # fmt: skip
    assert done(orphan).startswith(f"its deletion was asked for by token:a at {EXITED}")
    gone = orphan.model_copy(update={"closed_at": ENDED, "proof": "released"})
    assert done(gone) == "nothing is left to delete: released"
