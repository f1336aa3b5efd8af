"""Spec documents as they come in by HTTP: media type, size, parsing off the event loop where it is slow."""

import asyncio

from starlette.requests import Request

from placet.contract.parse import Format, Parsed, parse
from placet.server import problems
from placet.server.table import SPEC_BODY_MAX, read_body

JSON_TYPES = frozenset({"", "application/json", "text/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
# Well-formed JSON below this is parsed in well under a millisecond; a thread would cost as much.
INLINE_BYTES = 16 * 1024

# For the OpenAPI document; the schema of a spec is served by /v1/spec-schema.
SPEC_BODY = {
    "required": True,
    "description": "A spec document; its schema is at /v1/spec-schema.",
    "content": {media: {"schema": {"type": "object"}} for media in ("application/json", "application/yaml")},
}


async def read_spec(request: Request, now_ms: int) -> Parsed:
    """The spec in the body of a request; a refusal with all mistakes when there are any."""
    form = _form(request.headers.get("content-type", ""))
    body = await read_body(request, SPEC_BODY_MAX)
    if form == "json" and len(body) <= INLINE_BYTES:
        parsed = parse(body, now_ms=now_ms, form=form)
    else:
        parsed = await asyncio.to_thread(parse, body, now_ms=now_ms, form=form)
    if isinstance(parsed, Parsed):
        return parsed
    raise problems.Refusal(problems.INVALID_SPEC, detail=_counted(len(parsed)), problems=parsed)


def _form(content_type: str) -> Format:
    plain = content_type.partition(";")[0].strip().lower()
    if plain in JSON_TYPES:
        return "json"
    if plain in YAML_TYPES:
        return "yaml"
    raise problems.Refusal(problems.MEDIA, detail="the content type is none of a spec")


def _counted(number: int) -> str:
    return "the spec has a mistake" if number == 1 else f"the spec has {number} mistakes"
