"""The OpenAPI document. FastAPI writes it, from the declared doors, when somebody asks; it serves nothing."""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from string import Formatter
from typing import Annotated, Any, TypeAlias

from placet import __version__
from placet.contract import api
from placet.contract.codes import Code
from placet.server import problems
from placet.server.table import Door, Route

Json: TypeAlias = dict[str, Any]  # OpenAPI's shape is its own

_FOREIGN = ("HTTPValidationError", "ValidationError")


def describe(routes: Sequence[Route]) -> Json:
    """The document. Wrong parameters are a 400 with our problem document here, not FastAPI's 422."""
    from fastapi import FastAPI  # what it needs to load takes longer than all the rest of a server's start

    app = FastAPI(title="Placet", version=__version__, summary="Submit AI workloads; Placet decides where they run.")
    app.router.routes.clear()  # of its own documentation
    shared = Counter(route.endpoint.__name__ for route in routes if not route.door.alias)
    for route in routes:
        door, verb = route.door, route.endpoint.__name__
        app.router.add_api_route(
            door.path,
            _signed(route),
            methods=[door.method],
            status_code=door.status,
            response_model=None,
            summary=door.summary,
            responses=_responses(door),
            operation_id=verb if shared[verb] == 1 else f"{_noun(door)}_{verb}",
            include_in_schema=not door.alias,
            openapi_extra=_extra(door),
        )
    return _corrected(app.openapi())


def _noun(door: Door) -> str:
    """What a door is about, for doors whose verbs are the same word."""
    return next(word for word in door.path.split("/") if word not in ("", "v1"))


def _signed(route: Route) -> Callable[..., Awaitable[None]]:
    """A stand-in with the declared parameters as its own, which is where FastAPI looks for them."""
    from fastapi import Query

    async def stand_in(**_: object) -> None:
        raise NotImplementedError

    names = [name for _, name, _, _ in Formatter().parse(route.door.path) if name]
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=str) for name in names]
    if route.door.asked.model_fields:
        asked: object = Annotated[route.door.asked, Query()]
        parameters.append(inspect.Parameter("asked", inspect.Parameter.KEYWORD_ONLY, annotation=asked))
    stand_in.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect documents it
    stand_in.__doc__ = inspect.getdoc(route.endpoint)
    return stand_in


def _extra(door: Door) -> Json:
    extra: Json = {**door.extra, "security": _security(door), "x-repeat": door.repeat.value}
    if door.scope:
        extra["x-scope"] = door.scope.value
    if door.body is not None:
        content = {"application/json": {"schema": door.body.model_json_schema()}}
        extra["requestBody"] = {"required": True, "content": content}
    return extra


def _security(door: Door) -> list[Json]:
    if door.attempt:
        return [{"pass": []}]
    return [{"token": []}] if door.scope else []


def _responses(door: Door) -> dict[int | str, dict[str, Any]]:
    shown: dict[int | str, dict[str, Any]] = {door.status: {"description": "Done."}}
    if door.reply is not None:
        shown[door.status]["model"] = door.reply
    else:
        shown[door.status]["content"] = {door.media_type: {}}
    if door.streams:
        shown[door.status]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    refusals: tuple[Code, ...] = (*door.refusals, problems.INTERNAL, problems.UNAVAILABLE, problems.COMMIT_UNKNOWN)
    if door.scope:
        refusals = (*refusals, problems.BAD_REQUEST, problems.UNAUTHORIZED, problems.FORBIDDEN, problems.TOO_MANY)
    for refusal in refusals:
        known = shown.setdefault(refusal.status, {"model": api.ProblemDetails, "description": ""})
        known["description"] = f"{known['description']}; {refusal.code}".removeprefix("; ")
    return shown


def _corrected(described: Json) -> Json:
    for path in described["paths"].values():
        for operation in path.values():
            if _is_foreign(operation["responses"].get("422", {})):
                del operation["responses"]["422"]
            for response in operation["responses"].values():
                _as_problem(response)
    components = described.setdefault("components", {})
    for name in _FOREIGN:
        components.get("schemas", {}).pop(name, None)
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "`placet token create` makes one."},
        "pass": {
            "type": "http",
            "scheme": "bearer",
            "description": "Given to the machine of an attempt, for it alone.",
        },
    }
    return described


def _is_foreign(response: Json) -> bool:
    return _shape_of(response) in _FOREIGN


def _as_problem(response: Json) -> None:
    """FastAPI knows one type of content for all models; problem documents have their own."""
    if _shape_of(response) == api.ProblemDetails.__name__:
        response["content"] = {problems.MEDIA_TYPE: response["content"]["application/json"]}


def _shape_of(response: Json) -> str:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).rpartition("/")[2]
