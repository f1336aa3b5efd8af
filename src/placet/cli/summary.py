"""A result in a few lines, for the end of ``run``, for ``wait`` and for ``result``."""

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from placet.contract.quantities import format_bytes, format_duration_ms, format_money

if TYPE_CHECKING:
    from placet.contract.api import OfferView, ResultView

OUTPUTS_SHOWN = 20


def show_result(result: "ResultView", say: Callable[[str], None]) -> None:
    """Says how it ended, where it ran, what it took and cost, and what it hands back."""
    say(f"{result.state}  {result.workload_id}" + (f"  {result.name}" if result.name else ""))
    if result.cause is not None:
        code = "" if result.cause.exit_code is None else f" (exit code {result.cause.exit_code})"
        say(f"  cause    {result.cause.code}{code}: {result.message}")
        if result.fix:
            say(f"  fix      {result.fix}")
    if result.placement is not None:
        tries = len(result.attempts)
        where = " ".join(word for word in (result.placement.offer, result.placement.region) if word)
        say(f"  ran on   {where}" + (f", {tries} attempts" if tries > 1 else ""))
    if result.simulated:
        say("  SIMULATED: no machine, no program and no money was real")
    timing = result.timing
    parts = [
        f"{format_duration_ms(timing.total_ms)} in all" if timing.total_ms is not None else "",
        f"{format_duration_ms(timing.until_first_start_ms)} until it started"
        if timing.until_first_start_ms is not None
        else "",
        f"{format_duration_ms(timing.last_run_ms)} running" if timing.last_run_ms is not None else "",
    ]
    say("  took     " + ", ".join(part for part in parts if part))
    most = "at most " if result.cost.at_most else ""
    say(f"  cost     {most}{format_money(Decimal(result.cost.total_usd))}" + _wasted(result))
    for output in result.outputs[:OUTPUTS_SHOWN]:
        say(f"  output   {output.path}  {format_bytes(output.size_bytes)}  sha256 {output.sha256[:16]}…")
    if len(result.outputs) > OUTPUTS_SHOWN:
        say(f"  and {len(result.outputs) - OUTPUTS_SHOWN} more: placet artifacts ls {result.workload_id}")


def provider_of(offer: "OfferView") -> str:
    """The provider of an offer, and that it is not real where it is not."""
    return offer.provider + (" (not real)" if offer.simulated else "")


def _wasted(result: "ResultView") -> str:
    wasted = Decimal(result.cost.wasted_usd)
    return f", of which {format_money(wasted)} for attempts that came to nothing" if wasted else ""
