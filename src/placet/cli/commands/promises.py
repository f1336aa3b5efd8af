"""What `doctor` says of a server's providers, by their contract cards: what is promised, what is missing."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.contract.providers import CardView, ProviderView


def told(one: "ProviderView") -> str:
    """What it promises, in a line."""
    card = one.card
    late = "nobody knows how late" if card.late_create_s is None else f"at most {card.late_create_s:g} s late"
    kinds = ", ".join(card.runtimes) or "no runtime"
    real = "simulated, nothing is real; " if one.simulated else ""
    return (
        f"{real}{kinds}; {one.offers} offers, {one.free} free; a create lands {late}, is visible within "
        f"{card.visibility_s:g} s"
    )


def lacks(card: "CardView") -> Iterator[str]:
    """What it does not promise, and what that costs its user."""
    elsewhere = not card.bound_to_place
    found = card.naming.unique or card.naming.searchable
    for lacking, means in (
        (card.late_create_s is None, "nobody knows how late a create may land: `placet resolve` may be needed"),
        (not card.lists_completely, "its list is not complete: what is left behind there may not be found"),
        (not found, "what it made cannot be found by name: a lost answer stays unknown"),
        (not card.fence, "it starts a program without our permit: a machine that it makes twice runs it twice"),
        (not card.exit_code, "it tells no exit code: an end cannot be proven to be good"),
        (card.exit_code and not card.exit_code_reliable, "its exit codes are not reliable"),
        (card.restarts_by_itself, "it starts a program again by itself"),
        (
            card.forgets_after_s is not None,
            f"it forgets what has ended after {card.forgets_after_s} s: undelivered outputs are kept no longer",
        ),
        (elsewhere and card.preempt_notice_s is None, "it takes a machine away without notice"),
        (elsewhere and not card.time_to_live, "it deletes nothing by itself: only Placet ends what runs there"),
    ):
        if lacking:
            yield means
