"""The conformance kit against a provider that is set up here: one line per law, within a cost."""

import asyncio
import secrets
import sys
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.output import Output, last_words, note
from placet.cli.settings import settings_for
from placet.contract.quantities import format_money

if TYPE_CHECKING:
    from placet.testing.conformance.provider_run import Outcome

MARKS = {"kept": "kept", "broken": "BROKEN", "not_applicable": "n/a", "not_tried": "not tried"}


def provider_test(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A provider that the settings of this machine switch on.")],
    max_cost: Annotated[
        str, typer.Option("--max-cost", metavar="USD", help="Most that it may cost; what may cost more is not tried.")
    ] = "1.00",
    law: Annotated[
        str, typer.Option("--law", metavar="PATTERN", help="Only laws of this name, such as `*stop*`.")
    ] = "*",
) -> int:
    """Try the laws of a provider on it: small programs are run, and all that was made is deleted.

    It uses the settings of this machine and no server. 0 only if every law was kept or says nothing of it.
    """
    output = Output(context.obj)
    most = _money(max_cost)
    settings = settings_for(context.obj)
    from placet import app
    from placet.testing.conformance.provider_configured import ConfiguredBench
    from placet.testing.conformance.provider_run import CannotTry, named, run

    makers = app.provider_makers(settings)
    if name not in makers:
        what = f"the settings of this machine switch on no provider {name!r}"
        raise Stop("not_found", what, f"these are switched on: {', '.join(makers) or 'none'}")
    laws = named(lambda each: fnmatchcase(each, law))
    if not laws:
        raise Stop("usage", f"no law is named {law!r}", "without --law all are tried and named", Exit.REFUSED)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    bench = ConfiguredBench(makers[name], f"kit-{secrets.token_hex(4)}")
    try:
        outcomes, remains = asyncio.run(run(bench, laws, most, lambda outcome: _tell(output, outcome)))
    except CannotTry as error:
        what = f"the provider {name!r} cannot be tried: {error}"
        raise Stop(
            "provider_unavailable", what, "`placet doctor` and the page of the provider say what it needs"
        ) from error
    return _conclude(output, name, outcomes, remains)


def _money(text: str) -> Decimal:
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise Stop("usage", f"--max-cost: {text!r} is not an amount", "write for example --max-cost 0.50", Exit.REFUSED)
    return amount


def _tell(output: Output, outcome: "Outcome") -> None:
    if output.json:
        output.line(
            {
                "law": outcome.law,
                "says": outcome.says,
                "verdict": outcome.verdict.value,
                "why": outcome.why,
                "took_s": round(outcome.took_s, 3),
                "cost_usd": f"{outcome.cost_usd:f}",
            }
        )
        return
    word = "not applicable: " if outcome.verdict.value == "not_applicable" else ""
    why = f"  ({word}{outcome.why})" if outcome.why else ""
    output.say(f"{MARKS[outcome.verdict]:<10} {outcome.took_s:6.1f} s  {outcome.law}: {outcome.says}{why}")
    sys.stdout.flush()  # each line is news, in a pipe too


def _conclude(output: Output, name: str, outcomes: "list[Outcome]", remains: tuple[str, ...]) -> int:
    counts = {mark: sum(one.verdict == mark for one in outcomes) for mark in MARKS}
    cost = sum((one.cost_usd for one in outcomes), Decimal(0))
    good = not counts["broken"] and not counts["not_tried"] and not remains
    with last_words():
        if output.json:
            summary = {**counts, "cost_usd": f"{cost:f}", "left": list(remains), "conforms": good}
            output.line({"provider": name, "summary": summary})
        else:
            told = ", ".join(f"{count} {mark.replace('_', ' ')}" for mark, count in counts.items() if count)
            output.say(f"{name}: {told}; at most {format_money(cost)}")
    for key in remains:
        note(f"left at the provider: {key}; delete it there", style="red")
    return Exit.OK if good else Exit.FAILED
