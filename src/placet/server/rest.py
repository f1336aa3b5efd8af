"""The REST application: every declared route, every refusal as a problem document, behind the edge."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from placet.domain.errors import StoreBusy, StoreFull, StoreUnknown
from placet.server import (
    attempts,
    budgets,
    calibrations,
    explanations,
    hooks,
    ledgers,
    operating,
    orphans,
    outputs,
    problems,
    providers,
    resolving,
    secrets,
    workloads,
)
from placet.server.description import describe
from placet.server.doors import Doors
from placet.server.edge import REQUEST_ID, ROUTE, Edge
from placet.server.table import PRINCIPAL, Door, Route, admit
from placet.server.tokens import TokenGate

FULL: Final = "No space is left on the disk of the server's database: free some. Nothing was done."
SOON: Final = {"retry-after": "1"}
# `{name}` is one part of a path, `{name:path}` all that is left of it.
PARAMETER: Final = re.compile(r"\{(\w+)(:path)?\}", re.ASCII)


def build_rest(doors: Doors) -> Edge:
    """The application over these doors, ready to be served."""
    rest = Rest(routes(doors), doors.gate, observing=doors.observing)
    return Edge(rest, allowed_hosts=doors.allowed_hosts, boot=doors.ids.nonce()[:8], observe=doors.metrics.observe)


def routes(doors: Doors) -> tuple[Route, ...]:
    """The whole route table; a door that nothing is behind, or that is not declared, stops the start."""
    found: tuple[Route, ...] = (
        *workloads.Workloads(doors).routes(),
        *resolving.Resolving(doors).routes(),
        *ledgers.Ledgers(doors).routes(),
        *budgets.Budgets(doors).routes(),
        *outputs.Outputs(doors).routes(),
        *explanations.Explanations(doors).routes(),
        *calibrations.Calibrations(doors).routes(),
        *orphans.Orphans(doors).routes(),
        *hooks.Webhooks(doors).routes(),
        *secrets.Secrets(doors).routes(),
        *providers.Providers(doors).routes(),
        *attempts.Attempts(doors).routes(),
        *operating.Operating(doors, lambda: describe(found)).routes(),
    )
    assert [route.door for route in found] == list(declared()), "routes and declarations differ"
    return found


def declared() -> tuple[Door, ...]:
    """Every door there is, for documentation and for tests of policy."""
    return (
        *workloads.DOORS,
        *resolving.DOORS,
        *ledgers.DOORS,
        *budgets.DOORS,
        *outputs.DOORS,
        *explanations.DOORS,
        *calibrations.DOORS,
        *orphans.DOORS,
        *hooks.DOORS,
        *secrets.DOORS,
        *providers.DOORS,
        *attempts.DOORS,
        *operating.DOORS,
    )


class Rest:
    """Plain ASGI: finds the door, asks who comes, calls what is behind it. What nobody foresaw is the edge's."""

    def __init__(self, table: Sequence[Route], gate: TokenGate, *, observing: bool = False) -> None:
        self._gate = gate
        self._observing = observing
        self._plain: dict[str, dict[str, Route]] = {}
        self._patterns: dict[re.Pattern[str], dict[str, Route]] = {}
        for route in table:
            path = route.door.path
            methods = self._patterns.setdefault(_pattern(path), {}) if "{" in path else self._plain.setdefault(path, {})
            methods[route.door.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except problems.Refusal as refusal:
            response = _problem(request, refusal)
        except StoreFull:
            response = _problem(request, problems.Refusal(problems.UNAVAILABLE, FULL, headers=SOON))
        except StoreBusy:
            response = _problem(request, problems.Refusal(problems.UNAVAILABLE, headers=SOON))
        except StoreUnknown:
            response = _problem(request, problems.Refusal(problems.COMMIT_UNKNOWN, headers=SOON))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        methods, parts = self._find(request.scope["path"])
        route = methods.get(request.method)
        if route is None:
            raise problems.Refusal(problems.METHOD, headers={"allow": ", ".join(sorted(methods))})
        request.scope[ROUTE] = route.door.path
        request.scope["path_params"] = parts
        if route.door.scope is not None:
            request.scope[PRINCIPAL] = await admit(request, self._gate, route.door.scope)
        if route.door.starts and self._observing:
            raise problems.Refusal(problems.OBSERVING)
        return await route.endpoint(request)

    def _find(self, path: str) -> tuple[Mapping[str, Route], dict[str, str]]:
        """What is at a path, by method, and the parts that the path names."""
        plain = self._plain.get(path)
        if plain is not None:
            return plain, {}
        for pattern, methods in self._patterns.items():
            match = pattern.fullmatch(path)
            if match is not None:
                return methods, match.groupdict()
        raise problems.Refusal(problems.NOT_FOUND, detail="there is no such route; see /v1/openapi.json")


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(PARAMETER.sub(lambda found: f"(?P<{found[1]}>{'.*' if found[2] else '[^/]+'})", path))


def _problem(request: Request, refusal: problems.Refusal) -> Response:
    return problems.response(refusal, str(request.scope.get(REQUEST_ID, "")))
