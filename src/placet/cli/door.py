"""How a command reaches a server, and which workload its words mean."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.options import Options

if TYPE_CHECKING:
    from placet.contract.api import WorkloadSummary
    from placet.sdk.client import Client

WHOLE_ID = re.compile(r"wl_[0-9a-z]{29}", re.ASCII)
PREFIX = re.compile(r"(?:wl_)?[0-9a-z]{4,29}", re.ASCII)
LAST = "last"
# How far back a cut id is looked for.
SEARCHED = 2000
PAGE = 200


def client(options: Options, *, start: bool = True) -> "Client":
    """The client for what was said on the command line; it starts a server on this machine if need be."""
    from placet.sdk.client import Client

    return Client(url=options.url, data_dir=options.data_dir, start=start)


def resolve(client: "Client", text: str) -> str:
    """The id of the workload that is meant: an id, the unique beginning of one, a name, or ``last``."""
    if WHOLE_ID.fullmatch(text):
        return text
    if text == LAST:
        newest = client.page(limit=1).items
        if not newest:
            raise Stop("not_found", "there is no workload yet", "submit one: placet run FILE")
        return newest[0].id
    named = client.page(name=text, limit=1).items if len(text) <= 63 else []
    if named:
        return named[0].id
    found = _beginning(client, text) if PREFIX.fullmatch(text) else []
    if len(found) == 1:
        return found[0]
    if found:
        raise Stop("ambiguous_id", f"{text} may be {', '.join(found[:5])}", "write more of it", Exit.REFUSED)
    raise Stop("not_found", f"there is no workload {text!r}", "`placet ls` lists them; `last` is the newest")


def _beginning(client: "Client", text: str) -> Sequence[str]:
    """Ids that begin so, ``wl_`` said or not."""
    start = text if text.startswith("wl_") else f"wl_{text}"
    found: list[str] = []
    cursor: str | None = None
    for _ in range(SEARCHED // PAGE):
        page = client.page(limit=PAGE, cursor=cursor)
        found += [one.id for one in page.items if one.id.startswith(start)]
        if page.next is None or (page.items and page.items[-1].id < start):
            break
        cursor = page.next
    return found


def line_of(one: "WorkloadSummary") -> tuple[str, str, str, str, str]:
    """A workload as a row."""
    state = f"{one.state} (stopping)" if one.desired == "stop" and not one.final else one.state
    state += " (simulated)" if one.simulated else ""
    return one.id, one.name or "", state, one.cause or one.reason, one.created_at
