"""What stands in the query of a request: read by a model, and every mistake told in words that name what is allowed.

A value that was given is never repeated; a name that nobody knows is, in part, so that its writer finds it.
"""

import difflib
import re
from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from placet.server import problems

NAME_SHOWN_MAX = 40
_OPTION = re.compile(r"'([^']*)'")
_UNFIT = re.compile(r"[^0-9A-Za-z_.-]+", re.ASCII)

_WHOLE = ("is not a whole number", "write a whole number")
_TRUTH = ("is not true or false", "write true or false")
_EMPTY = ("is empty", "give at least one")
# By the kind of pydantic's error; its context fills the gaps.
_WORDS = {
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "bool_parsing": _TRUTH,
    "bool_type": _TRUTH,
    "greater_than_equal": ("is less than {ge}", "write {ge} or more"),
    "less_than_equal": ("is more than {le}", "write {le} or less"),
    "string_too_short": _EMPTY,
    "too_short": _EMPTY,
    "string_too_long": ("is longer than {max_length} characters", "give a shorter one"),
    "too_long": ("is given more than {max_length} times", "give fewer"),
    "string_pattern_mismatch": ("is not of the form that it has here", "take it unchanged from the reply it came in"),
    "missing": ("is missing", "add it"),
    "extra_forbidden": ("there is no such field", "remove it"),
}


class Asked(BaseModel):
    """What may stand in the query of a door. Anything else is refused: a misspelt filter would list too much."""

    model_config = ConfigDict(frozen=True, defer_build=True)


Q = TypeVar("Q", bound=Asked)


def asked(request: Request, model: type[Q]) -> Q:
    """The query of a request, checked; of a parameter that is said twice and has one value, the last counts.

    Raises:
        Refusal: a value does not fit, or a name is none of the model's.
    """
    if not request.scope["query_string"]:
        return model()
    only_known(request, model)
    query = request.query_params
    given = {
        name: query.getlist(name) if isinstance(field.default, tuple) else query[name]
        for name, field in model.model_fields.items()
        if name in query
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise unfit(error) from error


def only_known(request: Request, model: type[Asked]) -> None:
    """Refuses a request that says a name the door does not know."""
    if not request.scope["query_string"]:
        return
    for name in request.query_params:
        if name not in model.model_fields:
            shown = _UNFIT.sub("?", name[:NAME_SHOWN_MAX])
            raise problems.Refusal(
                problems.BAD_REQUEST,
                detail=f"{shown}: this route has no such parameter",
                fix=_known(name, tuple(model.model_fields), "this route takes no parameters"),
            )


def unfit(error: ValidationError) -> problems.Refusal:
    """The refusal for the first thing that does not fit, of a query or of a small body."""
    first = error.errors(include_url=False)[0]
    where = ".".join(step for step in first["loc"] if isinstance(step, str)) or "body"
    wrong, fix = _words(first)
    return problems.Refusal(problems.BAD_REQUEST, detail=f"{where}: {wrong}", fix=fix)


def closest(given: str, options: Iterable[str]) -> str | None:
    """The one of these words that was most likely meant."""
    close = difflib.get_close_matches(given[:NAME_SHOWN_MAX].lower().replace("-", "_"), list(options), n=1, cutoff=0.6)
    return close[0] if close else None


def _known(given: str, options: tuple[str, ...], otherwise: str) -> str:
    meant = closest(given, options)
    if meant:
        return f"did you mean `{meant}`?"
    return f"known are {', '.join(options)}" if options else otherwise


def _words(error: ErrorDetails) -> tuple[str, str]:
    """What is wrong, and what to write instead."""
    context, kind = error.get("ctx", {}), error["type"]
    if kind in ("enum", "literal_error"):
        options = tuple(_OPTION.findall(str(context["expected"])))
        return f"is not one of {', '.join(options)}", _known(str(error["input"]), options, "")
    if kind in _WORDS:
        wrong, fix = _WORDS[kind]
        return wrong.format_map(context), fix.format_map(context)
    wrong, _, fix = str(error["msg"]).removeprefix("Value error, ").partition("; ")
    return wrong.lower(), fix
