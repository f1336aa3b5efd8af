"""The command that agents start: the tools of Placet over their own standard input and output."""

from decimal import Decimal
from typing import Annotated

import typer

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.options import Options


def mcp(
    context: typer.Context,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that starts or stops anything.")
    ] = False,
    spend_limit: Annotated[
        float | None, typer.Option(min=0, help="Refuse workloads whose bound on cost is higher, or missing; in USD.")
    ] = None,
) -> int:
    """Offer Placet's tools to an agent over stdin and stdout (Model Context Protocol), with the rights of the token."""
    options: Options = context.obj
    try:
        from placet.mcp.server import make_server
    except ImportError as error:
        raise Stop("no_mcp", "the MCP library is not here", "pip install '.[mcp]'", Exit.ERROR) from error
    from placet.sdk.aio import AsyncClient

    client = AsyncClient(url=options.url, data_dir=options.data_dir)
    limit = None if spend_limit is None else Decimal(str(spend_limit))
    make_server(client, read_only=read_only, spend_limit_usd=limit).run("stdio")
    return Exit.OK
