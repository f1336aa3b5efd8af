"""What all parts of the spec document share: strictness, both naming styles, and the words for a field's binding."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

STRICT: JsonDict = {"x-binding": "strict"}
PREFERENCE: JsonDict = {"x-binding": "preference"}
BEHAVIOUR: JsonDict = {"x-binding": "behaviour"}
INFORMATION: JsonDict = {"x-binding": "information"}


class Part(BaseModel):
    """What all parts of a spec share."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        loc_by_alias=False,
        serialize_by_alias=False,
        defer_build=True,  # most loads of this module are for a few of its models
    )
    known: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.known = frozenset(cls.model_fields) | {to_camel(name) for name in cls.model_fields}

    @model_validator(mode="before")
    @classmethod
    def null_is_not_stated(cls, value: object) -> object:
        if isinstance(value, dict) and None in value.values():
            return {key: held for key, held in value.items() if held is not None or key not in cls.known}
        return value
