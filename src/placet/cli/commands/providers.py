"""What the providers of a server are and promise. Trying their laws is in ``trying``."""

from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.door import client
from placet.cli.failures import Stop
from placet.cli.output import Output

if TYPE_CHECKING:
    from placet.contract.providers import CardView, ProviderView


def provider_ls(context: typer.Context) -> None:
    """List the providers of the server, the simulated ones marked."""
    output = Output(context.obj)
    with client(context.obj) as server:
        found = server.providers()
    if output.json:
        output.document([one.model_dump(exclude={"card"}) for one in found])
        return
    rows = [
        (one.name, "simulated" if one.simulated else "", one.offers, one.free, " ".join(one.runtimes),
         " ".join(one.regions), one.observed_at)
        for one in found
    ]  # fmt: skip
    output.table(("Provider", "Kind", "Offers", "Free", "Runtimes", "Regions", "Heard of"), rows)


def provider_show(
    context: typer.Context, name: Annotated[str, typer.Argument(help="Its name, as `placet provider ls` has it.")]
) -> None:
    """Show one provider and its contract card: what it promises and what it lacks."""
    output = Output(context.obj)
    with client(context.obj) as server:
        found = {one.name: one for one in server.providers()}
    one = found.get(name)
    if one is None:
        known = ", ".join(found) or "none"
        raise Stop("not_found", f"there is no provider {name!r}", f"these are set up: {known}")
    if output.json:
        output.document(one.model_dump())
    else:
        _say(output, one)


def provider_messages(context: typer.Context) -> None:
    """List what providers said that no table knows: each kind of sentence once, without what is private."""
    output = Output(context.obj)
    with client(context.obj) as server:
        found = server.provider_messages()
    if output.json:
        output.document([one.model_dump() for one in found])
        return
    rows = [(one.provider, one.verb, one.count, one.last_at, one.text) for one in found]
    output.table(("Provider", "Asked", "Times", "Last", "What it said"), rows)


def _say(output: Output, one: "ProviderView") -> None:
    output.pairs(
        {
            "provider": one.name,
            "kind": "simulated: no machine, no program and no money is real" if one.simulated else "",
            "offers": f"{one.offers}, {one.free} with something free",
            "regions": ", ".join(one.regions),
        }
    )
    output.pairs(_promises(one.card), title="contract card")
    output.pairs({word: phase for word, phase in one.card.states.items()}, title="states")
    errors = {
        f"{rule.status or 'any'} {rule.marker}".strip() + f" ({place})": rule.kind
        for place, rule in enumerate(one.card.error_table, 1)
    }
    if errors:
        output.pairs(errors, title="errors, the first that fits")


def _promises(card: "CardView") -> dict[str, object]:
    naming, stopping = card.naming, card.stopping
    return {
        "identity": card.identity.replace("_", " "),
        "names": f"{'unique' if naming.unique else 'not unique'}, up to {naming.length_max} characters, "
        f"{'searchable' if naming.searchable else 'not searchable'}",
        "another request of that name": "refused" if naming.checks_parameters else "not told apart",
        "a create lands late (D)": _seconds(card.late_create_s, "nobody knows by how much"),
        "a new thing is invisible (V)": f"at most {card.visibility_s:g} s",
        "list": f"{'complete' if card.lists_completely else 'not complete'}, "
        f"{'in pages' if card.list_paged else 'in one piece'}, "
        f"{'all regions' if card.list_across_regions else 'one region'}",
        "exit code": ("reliable" if card.exit_code_reliable else "not reliable") if card.exit_code else "none",
        "restarts by itself": _yes(card.restarts_by_itself),
        "fence": _yes(card.fence),
        "stop": f"{'idempotent' if stopping.idempotent else 'not idempotent'}, "
        f"{'seen later' if stopping.asynchronous else 'at once'}"
        + (f", refused while {', '.join(stopping.refused_in)}" if stopping.refused_in else ""),
        "remembers what has ended for": _seconds(card.forgets_after_s, "as long as it is not released"),
        "notice before it takes away": _seconds(card.preempt_notice_s, "none promised"),
        "deletes by itself": _yes(card.time_to_live),
        "says the price": card.price_echo.replace("_", " "),
        "billed in steps of": f"{card.billing_quantum_s} s",
        "rate limits": ", ".join(f"{each.verb}: {each.calls} in {each.per_s:g} s" for each in card.rate_limits)
        or "none stated",
        "create in two phases": _yes(card.two_phase_create),
        "logs": f"{', '.join(card.log_streams)}; from {'any offset' if card.logs_offsets else 'the beginning only'}",
        "logs are kept for": _seconds(card.logs_kept_s, "as long as it is not released"),
        "runtimes": ", ".join(card.runtimes),
        "notes": "; ".join(card.notes),
    }


def _seconds(held: float | None, otherwise: str) -> str:
    return otherwise if held is None else f"{held:g} s"


def _yes(held: bool) -> str:
    return "yes" if held else "no"
