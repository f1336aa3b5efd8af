"""The REST application: every declared route, every error as a problem document, behind the edge."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from placet import __version__
from placet.contract import api
from placet.contract.codes import Code
from placet.domain.errors import StoreBusy
from placet.server import operating, outputs, problems, workloads
from placet.server.description import describe
from placet.server.doors import Doors
from placet.server.edge import REQUEST_ID, Edge
from placet.server.table import Door, Route, route_class

BY_STATUS = {404: problems.NOT_FOUND, 405: problems.METHOD, 413: problems.TOO_LARGE, 415: problems.MEDIA}


def build_rest(doors: Doors) -> Edge:
    """The application over these doors, ready to be served."""
    app = FastAPI(
        title="Placet",
        version=__version__,
        summary="Submit AI workloads; Placet decides where they run.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for route in routes(doors, app):
        _mount(app, route, doors)
    for error, handler in HANDLERS.items():
        app.add_exception_handler(error, handler)
    return Edge(app, allowed_hosts=doors.allowed_hosts, boot=doors.ids.nonce()[:8], observe=doors.metrics.observe)


def routes(doors: Doors, app: FastAPI) -> tuple[Route, ...]:
    """The whole route table; a door that nothing is behind, or that is not declared, stops the start."""
    found = (
        *workloads.Workloads(doors).routes(),
        *outputs.Outputs(doors).routes(),
        *operating.Operating(doors, lambda: describe(app)).routes(),
    )
    assert [route.door for route in found] == list(declared()), "routes and declarations differ"
    return found


def declared() -> tuple[Door, ...]:
    """Every door there is, for documentation and for tests of policy."""
    return (*workloads.DOORS, *outputs.DOORS, *operating.DOORS)


def _mount(app: FastAPI, route: Route, doors: Doors) -> None:
    door = route.door
    extra: dict[str, Any] = {**door.extra, "security": [{"token": []}] if door.scope else []}
    if door.scope:
        extra["x-scope"] = door.scope.value
    extra["x-repeat"] = door.repeat.value
    app.router.add_api_route(
        door.path,
        route.endpoint,
        methods=[door.method],
        status_code=door.status,
        response_model=None,
        summary=door.summary,
        responses=_responses(route),
        operation_id=_operation(route),
        include_in_schema=not door.alias,
        openapi_extra=extra,
        route_class_override=route_class(route, doors.gate),
    )


def _responses(route: Route) -> dict[int | str, dict[str, Any]]:
    door = route.door
    shown: dict[int | str, dict[str, Any]] = {door.status: {"description": "Done."}}
    if door.reply is not None:
        shown[door.status]["model"] = door.reply
    else:
        shown[door.status]["content"] = {door.media_type: {}}
    if door.streams:
        shown[door.status]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    refusals: tuple[Code, ...] = (*door.refusals, problems.INTERNAL, problems.UNAVAILABLE)
    if door.scope:
        refusals = (*refusals, problems.BAD_REQUEST, problems.UNAUTHORIZED, problems.FORBIDDEN)
    for refusal in refusals:
        known = shown.setdefault(refusal.status, {"model": api.ProblemDetails, "description": ""})
        known["description"] = f"{known['description']}; {refusal.code}".removeprefix("; ")
    return shown


def _operation(route: Route) -> str:
    return route.endpoint.__qualname__.rpartition(".")[2]


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, problems.Refusal)
    return _problem(request, error)


async def _http(request: Request, error: Exception) -> Response:
    """What the router itself refuses."""
    assert isinstance(error, HTTPException)
    code = BY_STATUS.get(error.status_code, problems.BAD_REQUEST)
    detail = "there is no such route; see /v1/openapi.json" if code is problems.NOT_FOUND else ""
    return _problem(request, problems.Refusal(code, detail=detail, headers=error.headers or {}))


async def _parameters(request: Request, error: Exception) -> Response:
    """A parameter that does not fit; the value itself is not repeated."""
    assert isinstance(error, RequestValidationError)
    first: Mapping[str, Any] = error.errors()[0]
    name = str(first["loc"][1]) if len(first["loc"]) > 1 else "parameter"
    return _problem(request, problems.Refusal(problems.BAD_REQUEST, detail=f"{name}: {first['msg']}"))


async def _busy(request: Request, error: Exception) -> Response:
    del error
    return _problem(request, problems.Refusal(problems.UNAVAILABLE, headers={"retry-after": "1"}))


async def _failed(request: Request, error: Exception) -> Response:
    """Anything unforeseen. Starlette raises the error again behind this reply, and the edge writes it down."""
    del error
    return _problem(request, problems.Refusal(problems.INTERNAL))


def _problem(request: Request, refusal: problems.Refusal) -> Response:
    return problems.response(refusal, str(request.scope.get(REQUEST_ID, "")))


HANDLERS = {
    problems.Refusal: _refused,
    HTTPException: _http,
    RequestValidationError: _parameters,
    StoreBusy: _busy,
    Exception: _failed,
}
