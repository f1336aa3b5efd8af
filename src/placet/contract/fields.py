"""The kinds of value a spec is made of: quantities with units, names, paths, texts. No fields stand here.

Every validator takes what JSON or YAML gives (decimals instead of floats) and answers with the domain's own value.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import PlainValidator, Strict, StrictStr, StringConstraints, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from placet.contract import limits
from placet.contract.found import Found, refusal, shown
from placet.domain.units import (
    CORES_MIN,
    DISK_BYTES_MIN,
    DURATION_S_MIN,
    GB,
    MEMORY_BYTES_MIN,
    MONEY_MAX,
    TB,
    OutOfRange,
    parse_bytes,
    parse_duration_s,
    parse_instant_ms,
    parse_money,
)

Value = TypeVar("Value", int, Decimal)
JsonSchema: TypeAlias = dict[str, Any]  # the shape of a JSON Schema is pydantic's own

_NEGATIVE = re.compile(r"\s*[-−]\s*[0-9]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def plain_decimal(amount: Decimal) -> Decimal:
    """The one spelling of a number: no exponent, no zeros at the end."""
    whole = amount.to_integral_value()
    return Decimal(int(whole)) if amount == whole else Decimal(format(amount.normalize(), "f"))


def written(value: object) -> object:
    """A decimal as a person would write it: ``str`` would use an exponent for small ones."""
    return format(value, "f") if isinstance(value, Decimal) else value


def _quantity(
    value: object,
    read: Callable[[Any], Value],
    *,
    noun: str,
    example: str,
    positive: bool = True,
    least: tuple[Value, str] | None = None,
) -> Value:
    """The amount; ``least`` is what it must not be below, and how that is written."""
    bound = f"at least {least[1]}" if least is not None else "above zero" if positive else None
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise refusal(
            Found(
                code="wrong_type",
                what=f"{shown(value)} is not {noun}",
                why="a number is needed, or a number with a unit",
                fix=f"write for example {example}",
            )
        )
    value = written(value)
    if _NEGATIVE.match(str(value)):
        raise _too_small(value, noun=noun, example=example, bound=bound)
    try:
        amount = read(value)
    except ValueError as error:
        what, _, fix = str(error).partition("; ")
        code = "out_of_range" if isinstance(error, OutOfRange) else "bad_unit"
        why = "the bound keeps slips of the pen out" if code == "out_of_range" else f"it must be {noun}"
        raise refusal(Found(code=code, what=what, why=why, fix=fix or f"write for example {example}")) from None
    if (positive and amount == 0) or (least is not None and amount < least[0]):
        raise _too_small(value, noun=noun, example=example, bound=bound)
    return amount


def _too_small(value: object, *, noun: str, example: str, bound: str | None) -> PydanticCustomError:
    return refusal(
        Found(
            code="out_of_range",
            what=f"{shown(value)} is too small for {noun}",
            why="it must not be negative" if bound is None else f"it must be {bound}",
            fix=f"write for example {example}, or leave the field out",
        )
    )


def _memory(value: object) -> int:
    return _quantity(value, parse_bytes, noun="an amount of memory", example="24, 24GB or 24GiB")


def _main_memory(value: object) -> int:
    least = (MEMORY_BYTES_MIN, "1MiB")
    return _quantity(value, parse_bytes, noun="an amount of memory", example="24, 24GB or 24GiB", least=least)


def _disk(value: object) -> int:
    least = (DISK_BYTES_MIN, "4KiB")
    return _quantity(value, parse_bytes, noun="an amount of disk", example="24, 24GB or 24GiB", least=least)


def _volume_size(value: object) -> int:
    return _quantity(value, parse_bytes, noun="the size of a volume", example="24, 24GB or 24GiB")


def _size(value: object) -> int:
    return _quantity(value, parse_bytes, noun="a size", example="24, 24GB or 24GiB", positive=False)


def _sized(value: object) -> int:
    """Bytes that need a unit, because the field's name has none."""
    if isinstance(value, int | float | Decimal) or (isinstance(value, str) and value.strip().isdigit()):
        raise refusal(
            Found(
                code="bad_unit",
                what=f"{shown(value)} has no unit",
                why="the name of this field does not say what a bare number would count",
                fix=f"write for example {value}MB",
            )
        )
    return _quantity(value, parse_bytes, noun="an amount of bytes", example="64MB")


def _duration(value: object) -> Decimal:
    least = (DURATION_S_MIN, "1ms")
    held = _quantity(value, parse_duration_s, noun="a duration", example="90, 90m, 2h or 1h30m", least=least)
    return plain_decimal(held)


def _duration_or_zero(value: object) -> Decimal:
    return plain_decimal(_quantity(value, parse_duration_s, noun="a duration", example="0, 10 or 10s", positive=False))


def _money(value: object) -> Decimal:
    return plain_decimal(
        _quantity(value, parse_money, noun="an amount of US dollars", example="10, $10 or 0.50", positive=False)
    )


def _cores(value: object) -> Decimal:
    def read(text: str | int | float | Decimal) -> Decimal:
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", str(text).strip(), re.ASCII):
            raise ValueError(f"{shown(text)} is not a number of CPU cores; write for example 8 or 0.5")
        amount = Decimal(str(text).strip())
        if amount > limit:
            raise OutOfRange(f"{shown(text)} is more cores than any machine has; write at most {limit}")
        return amount

    limit = 16_384
    least = (CORES_MIN, str(CORES_MIN))
    return plain_decimal(_quantity(value, read, noun="a number of CPU cores", example="8 or 0.5", least=least))


_PARAMETER_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def _parameters(value: object) -> int:
    def read(text: str | int | float | Decimal) -> int:
        match = re.fullmatch(r"([0-9]{1,16}(?:\.[0-9]{1,6})?)\s*([kmbt]?)", str(text).strip(), re.ASCII | re.IGNORECASE)
        if match is None:
            raise ValueError(f"{shown(text)} is not a number of parameters; write for example 7B or 350M")
        amount = int(Decimal(match[1]) * _PARAMETER_UNITS[match[2].lower()])
        if amount > 1000 * TB:
            raise OutOfRange(f"{shown(text)} is more parameters than any model has; write at most 1000T")
        return amount

    return _quantity(value, read, noun="a number of parameters", example="7B")


def _instant(value: object, info: ValidationInfo) -> int:
    """Milliseconds since 1970; a time from now is also noted in the context, for it is another moment next time."""
    context: dict[str, int] = info.context or {}
    if not isinstance(value, str):
        raise refusal(
            Found(
                code="wrong_type",
                what=f"{shown(value)} is not a date",
                why="a bare number does not say from when it counts",
                fix='write for example "2027-01-31T18:00:00+01:00" or "+2h"',
            )
        )
    try:
        at_ms = parse_instant_ms(value, now_ms=context.get("now_ms", 0))
        if at_ms < 0:
            raise OutOfRange(f"{shown(value)} lies before 1970; give a date in the future")
    except ValueError as error:
        what, _, fix = str(error).partition("; ")
        code = "out_of_range" if isinstance(error, OutOfRange) else "bad_date"
        why = "a moment is a date, a time and a zone"
        fix = fix or "write for example 2027-01-31T18:00:00+01:00, or +2h"
        raise refusal(Found(code=code, what=what, why=why, fix=fix)) from None
    if value.strip().startswith("+"):
        context["deadline_after_ms"] = at_ms - context.get("now_ms", 0)
    return at_ms


def text_value(value: object) -> str:
    """The text itself; numbers and truth values are not made into text silently."""
    if isinstance(value, str):
        return value
    quoted = (
        f'"{value}"' if isinstance(value, int | Decimal) and not isinstance(value, bool) else '"' + shown(value) + '"'
    )
    raise refusal(
        Found(
            code="wrong_type",
            what=f"{shown(value)} is not text",
            why="text is needed here, and nothing is converted silently",
            fix=f"write text in quotes: {quoted}" if not isinstance(value, dict | list) else "write one text",
        )
    )


def _matching(
    pattern: str, *, code: str, noun: str, example: str, most: int = limits.NAME_CHARACTERS_MAX
) -> Callable[[object], str]:
    """A validator for short text of one form; the pattern must be linear."""
    form = re.compile(pattern, re.ASCII)

    def check(value: object) -> str:
        text = text_value(value)
        if len(text) <= most and form.fullmatch(text):
            return text
        why = f"it must be {noun}" if len(text) <= most else f"it has {len(text)} characters; {most} are the most"
        raise refusal(
            Found(code=code, what=f"{shown(text)} is not accepted", why=why, fix=f"write for example {example}")
        )

    return check


def safe_path(text: str, *, root: str) -> str | None:
    """Why the path may not be used, or ``None``: relative to the work folder, or below ``root``."""
    if not text or text.strip() != text:
        return "it is empty, or begins or ends with a blank"
    if len(text) > limits.PATH_CHARACTERS_MAX:
        return f"it has {len(text)} characters; {limits.PATH_CHARACTERS_MAX} are the most"
    if _CONTROL.search(text):
        return "it holds a control character"
    if text.startswith("/") and text != root and not text.startswith(root + "/"):
        return f"an absolute path must lie below {root}"
    if ".." in text.split("/"):
        return "`..` would leave the folder it must stay in"
    return None


def _path_below(root: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        text = text_value(value)
        why = safe_path(text, root=root)
        if why is None:
            return text
        name = text.rstrip("/").rpartition("/")[2]
        tail = name if name and ".." not in name and not _CONTROL.search(name) and len(name) < 80 else "file"
        raise refusal(
            Found(
                code="bad_path", what=f"{shown(text)} is not accepted", why=why, fix=f"write for example {root}/{tail}"
            )
        )

    return check


def _absolute(value: object) -> str:
    text = text_value(value)
    why = safe_path(text, root="") if text.startswith("/") else "it must be absolute"
    if why is None:
        return text
    raise refusal(Found(code="bad_path", what=f"{shown(text)} is not accepted", why=why, fix="write for example /data"))


def _any_path(value: object) -> str:
    text = text_value(value)
    if text and text.strip() and len(text) <= limits.PATH_CHARACTERS_MAX and not _CONTROL.search(text):
        return text
    why = "it is empty, too long, or holds a control character"
    raise refusal(Found(code="bad_path", what=f"{shown(text)} is not accepted", why=why, fix="write a plain path"))


def _digest(value: object) -> str:
    text = text_value(value).strip().lower().removeprefix("sha256:")
    if re.fullmatch(r"[0-9a-f]{64}", text):
        return text
    raise refusal(
        Found(
            code="bad_digest",
            what=f"{shown(value)} is not a SHA-256 digest",
            why="it has 64 hexadecimal digits",
            fix="copy the first word that `sha256sum FILE` prints",
        )
    )


def _dotted_version(parts_most: int, example: str, *, parts_least: int = 1) -> Callable[[object], str]:
    """A version such as 8.0, written as text or as a number; a whole number gets its ``.0``."""
    form = re.compile(rf"[0-9]{{1,5}}(\.[0-9]{{1,5}}){{{parts_least - 1},{parts_most - 1}}}", re.ASCII)

    def check(value: object) -> str:
        number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        if number and parts_least > 1:
            raise refusal(
                Found(
                    code="bad_value",
                    what=f"{shown(value)} is a number, not a version",
                    why="3.10 without quotes is the number 3.1",
                    fix=f'put it in quotes, for example "{example}"',
                )
            )
        text = str(written(value)) if number else text_value(value).strip()
        if not form.fullmatch(text):
            raise refusal(
                Found(
                    code="bad_value",
                    what=f"{shown(value)} is not a version",
                    why="a version is made of numbers with points between them",
                    fix=f'write for example "{example}"',
                )
            )
        return text if "." in text else text + ".0"

    return check


_PYTHON = r"3\.(0|[1-9][0-9]{0,4})(\.(0|[1-9][0-9]{0,4}))?"
# The oldest that an environment is made with.
_PYTHON_MINOR_LEAST = 8
_any_python = _dotted_version(3, "3.12", parts_least=2)


def _python_version(value: object) -> str:
    """A Python that an environment can be made with: 3.8 or newer, with or without the last number."""
    text = _any_python(value)
    match = re.fullmatch(_PYTHON, text, re.ASCII)
    if match is not None and int(match[1]) >= _PYTHON_MINOR_LEAST:
        return text
    raise refusal(
        Found(
            code="out_of_range",
            what=f"{shown(text)} is not a Python that is made here",
            why=f"environments are made with Python 3.{_PYTHON_MINOR_LEAST} and newer",
            fix=f'write "3.{_PYTHON_MINOR_LEAST}" or a newer one, for example "3.12"',
        )
    )


def _requirement(value: object) -> str:
    text = text_value(value).strip()
    name = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]{1,100}\])?"
    if len(text) > limits.PATH_CHARACTERS_MAX * 8 or _CONTROL.search(text):
        raise refusal(
            Found(code="bad_value", what="a requirement is too long", why="it is one line", fix="name==version")
        )
    pinned = (
        name + r" ?== ?[A-Za-z0-9][A-Za-z0-9._+!-]{0,60}(?: ?;[^\\]{1,300}?)?(?: --hash=sha256:[0-9a-f]{64}){0,100}"
    )
    if re.fullmatch(pinned, text, re.ASCII):
        return text
    bare = re.match(name, text, re.ASCII)
    loose = bare is not None and re.fullmatch(name + r"\s*([<>=!~].{0,200})?", text, re.ASCII)
    raise refusal(
        Found(
            code="not_pinned" if loose else "bad_value",
            what=f"{shown(text)} is not pinned" if loose else f"{shown(text)} is not a requirement",
            why="the next attempt might install something else"
            if loose
            else "only names with a version are accepted: no options, paths or URLs",
            fix=f"write {bare[0]}==VERSION" if loose and bare else "write for example numpy==2.1.0",
        )
    )


def _number_or_text(
    unit: str, pattern: str, *examples: object, zero: bool = False, least: Decimal | None = None
) -> JsonSchema:
    bound = {"minimum": 0 if zero else float(least or 0)} if zero or least else {"exclusiveMinimum": 0}
    return {
        "anyOf": [{"type": "number", **bound}, {"type": "string", "pattern": pattern}],
        "x-unit": unit,
        "examples": list(examples),
    }


def _text_like(pattern: str | None = None, *, most: int, least: int = 1, **more: object) -> JsonSchema:
    schema: JsonSchema = {"type": "string", "minLength": least, "maxLength": most, **more}
    return schema if pattern is None else schema | {"pattern": f"^(?:{pattern})$"}


def _kind(check: Callable[..., Any], schema: JsonSchema) -> tuple[PlainValidator, WithJsonSchema]:
    return PlainValidator(check), WithJsonSchema(schema)


_MEMORY_TEXT = r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT]?[iI]?[bB]?)\s*$"
_DURATION_TEXT = r"^\s*(([0-9]+(\.[0-9]+)?\s*([mM]?[sS]|[mMhHdD])\s*)+|[0-9]+(\.[0-9]+)?\s*)$"
_MONEY_TEXT = r"^\s*\$?\s*[0-9]+(\.[0-9]+)?\s*(USD|usd)?\s*$"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,254}"
_LABEL = r"[^\x00-\x1f\x7f-\x9f]{1,100}"
_MEMORY_SCHEMA = _number_or_text("GB (10**9 bytes)", _MEMORY_TEXT, 24, "24GB", "24GiB")
_MAIN_MEMORY_SCHEMA = _number_or_text(
    "GB (10**9 bytes)", _MEMORY_TEXT, 24, "24GB", "24GiB", least=Decimal(MEMORY_BYTES_MIN) / GB
)
_DISK_SCHEMA = _number_or_text(
    "GB (10**9 bytes)", _MEMORY_TEXT, 24, "24GB", "24GiB", least=Decimal(DISK_BYTES_MIN) / GB
)
_DURATION_SCHEMA = _number_or_text("seconds", _DURATION_TEXT, 7200, "2h", "1h30m", least=DURATION_S_MIN)
_ZERO_DURATION_SCHEMA = _number_or_text("seconds", _DURATION_TEXT, 10, "10s", zero=True)
_NAME_CHECK = _matching(_NAME, code="bad_name", noun="letters, digits, `.`, `_` and `-`", example="predictions")
_WORD_CHECK = _matching(_LABEL, code="bad_name", noun="1 to 100 printable characters", example="eu-west", most=100)
_KEY = r"[\x20-\x7e]{1,255}"

Memory = Annotated[int, *_kind(_memory, _MEMORY_SCHEMA)]
MainMemory = Annotated[int, *_kind(_main_memory, _MAIN_MEMORY_SCHEMA)]
Disk = Annotated[int, *_kind(_disk, _DISK_SCHEMA)]
VolumeSize = Annotated[int, *_kind(_volume_size, _MEMORY_SCHEMA)]
Size = Annotated[int, *_kind(_size, _number_or_text("GB (10**9 bytes)", _MEMORY_TEXT, 24, "24GB", "24GiB", zero=True))]
Sized = Annotated[
    int,
    *_kind(_sized, {"type": "string", "pattern": _MEMORY_TEXT, "x-unit": "bytes, unit required", "examples": ["64MB"]}),
]
Duration = Annotated[Decimal, *_kind(_duration, _DURATION_SCHEMA)]
DurationOrZero = Annotated[Decimal, *_kind(_duration_or_zero, _ZERO_DURATION_SCHEMA)]
Money = Annotated[
    Decimal,
    *_kind(_money, _number_or_text("US dollars", _MONEY_TEXT, 10, "$10", zero=True) | {"x-maximum": str(MONEY_MAX)}),
]
Cores = Annotated[
    Decimal, *_kind(_cores, _number_or_text("cores", r"^\s*[0-9]+(\.[0-9]+)?\s*$", 8, 0.5, least=CORES_MIN))
]
ParameterCount = Annotated[
    int, *_kind(_parameters, _number_or_text("parameters", r"^\s*[0-9]+(\.[0-9]+)?\s*[kKmMbBtT]?\s*$", "7B"))
]
Instant = Annotated[
    int,
    *_kind(
        _instant,
        _text_like(
            most=64, **{"x-unit": "date with zone, or + and a duration"}, examples=["2027-01-31T18:00:00Z", "+2h"]
        ),
    ),
]
Name = Annotated[str, *_kind(_NAME_CHECK, _text_like(_NAME, most=63))]
Word = Annotated[str, *_kind(_WORD_CHECK, _text_like(_LABEL, most=100))]
VariableName = Annotated[
    str,
    *_kind(
        _matching(_VARIABLE, code="bad_name", noun="letters, digits and `_`", example="BATCH_SIZE", most=255),
        _text_like(_VARIABLE, most=255),
    ),
]
Jurisdiction = Annotated[
    str,
    *_kind(
        _matching("[A-Z]{2,8}", code="bad_name", noun="a code in capital letters", example="EU or DE"),
        _text_like("[A-Z]{2,8}", most=8),
    ),
]
ComplianceTag = Annotated[
    str,
    *_kind(
        _matching(
            "[a-z0-9][a-z0-9._-]{0,62}", code="bad_name", noun="a tag in small letters", example="soc2 or iso27001"
        ),
        _text_like("[a-z0-9][a-z0-9._-]{0,62}", most=63),
    ),
]
MediaType = Annotated[
    str,
    *_kind(
        _matching(
            r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9*][a-z0-9.+-]{0,62}",
            code="bad_value",
            noun="type/subtype",
            example="application/json",
            most=127,
        ),
        _text_like(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9*][a-z0-9.+-]{0,62}", most=127),
    ),
]
Image = Annotated[
    str,
    *_kind(
        _matching(
            r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,510}",
            code="bad_value",
            noun="the name of an image, without blanks or a scheme",
            example="registry.example.com/batch-inference:v4",
            most=511,
        ),
        _text_like(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,510}", most=511),
    ),
]
ModelId = Annotated[
    str,
    *_kind(
        _matching(
            r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}",
            code="bad_name",
            noun="an organisation and a model, or a model",
            example="example-org/example-7b",
            most=200,
        ),
        _text_like(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", most=200),
    ),
]
PythonVersion = Annotated[
    str,
    *_kind(
        _python_version,
        {"type": "string", "pattern": r"^3\.([89]|[1-9][0-9]{1,4})(\.(0|[1-9][0-9]{0,4}))?$", "examples": ["3.12"]},
    ),
]
ComputeCapability = Annotated[
    str, *_kind(_dotted_version(2, "8.0"), {"anyOf": [{"type": "string"}, {"type": "number"}], "examples": ["8.0"]})
]
Version = Annotated[
    str, *_kind(_dotted_version(4, "12.4"), {"anyOf": [{"type": "string"}, {"type": "number"}], "examples": ["12.4"]})
]
Digest = Annotated[str, *_kind(_digest, _text_like("(sha256:)?[0-9a-fA-F]{64}", most=71))]
Requirement = Annotated[str, *_kind(_requirement, _text_like(most=8192, examples=["numpy==2.1.0"]))]
OutputPath = Annotated[str, *_kind(_path_below("/outputs"), _text_like(most=1024))]
CheckpointPath = Annotated[str, *_kind(_path_below("/checkpoints"), _text_like(most=1024))]
AbsolutePath = Annotated[str, *_kind(_absolute, _text_like("/.*", most=1024))]
AnyPath = Annotated[str, *_kind(_any_path, _text_like(most=1024))]
Text = Annotated[str, *_kind(text_value, _text_like(most=limits.TEXT_CHARACTERS_MAX, least=0))]
LabelText = Annotated[StrictStr, StringConstraints(max_length=limits.LABEL_CHARACTERS_MAX)]
MetadataText = Annotated[StrictStr, StringConstraints(max_length=limits.METADATA_CHARACTERS_MAX)]
LabelKey = Annotated[str, *_kind(_WORD_CHECK, _text_like(_LABEL, most=100))]
Flag = Annotated[bool, Strict()]
