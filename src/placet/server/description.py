"""The OpenAPI document: FastAPI's, with what it cannot know put right."""

from typing import Any, TypeAlias

from fastapi import FastAPI

Json: TypeAlias = dict[str, Any]  # OpenAPI's shape is its own

_FOREIGN = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> Json:
    """The document. Wrong parameters are a 400 with our problem document here, not FastAPI's 422."""
    described = app.openapi()
    for path in described["paths"].values():
        for operation in path.values():
            if _is_foreign(operation["responses"].get("422", {})):
                del operation["responses"]["422"]
    components = described.setdefault("components", {})
    for name in _FOREIGN:
        components.get("schemas", {}).pop(name, None)
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "`placet token create` makes one."}
    }
    return described


def _is_foreign(response: Json) -> bool:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).rpartition("/")[2] in _FOREIGN
