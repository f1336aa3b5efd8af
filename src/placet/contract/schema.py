"""The published JSON Schema of the spec document, draft 2020-12, made from the models."""

import json
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from placet.contract.spec import SpecDocument

Schema: TypeAlias = dict[str, Any]  # what a schema holds is pydantic's to know

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID = "urn:placet:spec:v1"


def spec_schema() -> Schema:
    """The schema as a fresh value: snake_case names, with every camelCase form beside its own."""
    copy: Schema = json.loads(_text())
    return copy


@cache
def _text() -> str:
    schema = SpecDocument.model_json_schema(by_alias=False, mode="validation", schema_generator=_Generator)
    for part in [schema, *schema.get("$defs", {}).values()]:
        _without_null(part)
        _closed(part)
    for name, part in schema["$defs"].items():
        _with_camel(part, f"#/$defs/{name}/properties/")
        _with_choice(name, part)
    _with_camel(schema, "#/properties/")
    head = {"$schema": SCHEMA_DIALECT, "$id": SCHEMA_ID}
    return json.dumps(head | schema, ensure_ascii=False)


class _Generator(GenerateJsonSchema):
    """Without titles, which say nothing that the names do not, and with readable defaults."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False

    def encode_default(self, dft: Any) -> Any:
        """Defaults as people would write them."""
        if isinstance(dft, Decimal):
            return int(dft)
        return {} if isinstance(dft, BaseModel) else super().encode_default(dft)


def _properties(part: Schema) -> Iterator[Schema]:
    yield from part.get("properties", {}).values()


def _without_null(part: Schema) -> None:
    """``null`` is read as "not stated"; better not to write it, so the schema does not offer it."""
    for held in _properties(part):
        choices = [choice for choice in held.get("anyOf", []) if choice != {"type": "null"}]
        if len(choices) == 1:
            del held["anyOf"]
            held.update({**choices[0], **held})
        elif choices:
            held["anyOf"] = choices
        if held.get("default", 0) is None:
            del held["default"]


def _closed(part: Schema) -> None:
    """Names in a mapping that fit no pattern are refused."""
    for held in _properties(part):
        if "patternProperties" in held:
            held["additionalProperties"] = False


def _with_camel(part: Schema, place: str) -> None:
    """Every field may be written in camelCase instead, but not in both styles at once."""
    properties = part.get("properties", {})
    twice = []
    for name in list(properties):
        camel = to_camel(name)
        if camel != name:
            properties[camel] = {"$ref": place + name, "description": f"The camelCase form of `{name}`."}
            twice.append({"not": {"required": [name, camel]}})
    if twice:
        part["allOf"] = [*part.get("allOf", []), *twice]


def _with_choice(name: str, part: Schema) -> None:
    """What must be given exactly once under one of two names."""
    pairs = {"Input": [["source"], ["text"]], "PythonRuntime": [["script"], ["script_text", "scriptText"]]}
    if name in pairs:
        part["oneOf"] = [{"required": [one]} for names in pairs[name] for one in names]
