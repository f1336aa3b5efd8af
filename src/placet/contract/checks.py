"""What must hold between the fields of a spec; each check yields its mistakes with paths relative to its part."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from urllib.parse import unquote, urlsplit

from placet.contract import limits
from placet.contract.found import Found, Path, shown
from placet.domain.failures import FailureClass
from placet.domain.spec import Accelerator, CapacityType, Repeat, WhenUnknown

OBJECT_SCHEMES = frozenset({"s3", "gs", "az", "hf"})
SCHEMES = frozenset({"file", "http", "https", "storage"}) | OBJECT_SCHEMES
STOP_GRACE_S_MAX = 3_600

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})://", re.ASCII)
_STORAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(/.*)?", re.ASCII | re.DOTALL)
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _contradiction(path: Path, what: str, why: str, fix: str) -> Found:
    return Found(code="contradiction", path=path, what=what, why=why, fix=fix)


def process(command: Sequence[str]) -> Iterator[Found]:
    if command and not command[0].strip():
        yield Found(
            code="bad_value",
            path=("command", 0),
            what="the program has no name",
            why="the first word is what is started",
            fix="name the program first: [python, work.py]",
        )


def exactly_one(
    first: str, first_value: str | None, second: str, second_value: str | None, *, example: str
) -> Iterator[Found]:
    if first_value is None and second_value is None:
        yield Found(
            code="missing_field",
            path=(first,),
            what=f"neither `{first}` nor `{second}` is given",
            why="one of them says what to use",
            fix=f"add for example `{example}`",
        )
    if first_value is not None and second_value is not None:
        yield _contradiction(
            (second,),
            f"`{first}` and `{second}` are both given",
            "only one of them can count",
            f"remove `{second}` or `{first}`",
        )


def size(text: str | None, stated: int | None) -> Iterator[Found]:
    if text is not None and stated is not None:
        yield _contradiction(
            ("size_gb",), "`text` is given and its size as well", "a text is as long as it is", "remove `size_gb`"
        )


def gpu(accelerator: Accelerator | None, count: int | None, stated: Mapping[str, object]) -> Iterator[Found]:
    if accelerator is Accelerator.NONE:
        for name in (*stated, *(["gpu_count"] if count else [])):
            yield _contradiction(
                (name,),
                f"`{name}` is stated and the accelerator is `none`",
                "only a GPU has it",
                f"set `accelerator: gpu`, or remove `{name}`",
            )
    if count == 0 and (accelerator is Accelerator.GPU or (accelerator is None and stated)):
        yield _contradiction(
            ("gpu_count",),
            "no GPU is asked for by number, and one by the other fields",
            "zero GPUs have no memory or model",
            "set `gpu_count: 1`, or remove the other GPU fields",
        )


def selection(allowed: Sequence[str], denied: Sequence[str], preferred: Sequence[str]) -> Iterator[Found]:
    for index, name in enumerate(denied):
        if name in allowed:
            yield _contradiction(
                ("denied", index),
                f"{name!r} is allowed and denied",
                "a name cannot be both",
                "remove it from one of the two lists",
            )
    for index, name in enumerate(preferred):
        if name in denied:
            yield _contradiction(
                ("preferred", index),
                f"{name!r} is preferred and denied",
                "what is denied is never chosen",
                "remove it from one of the two lists",
            )
        elif allowed and name not in allowed:
            yield _contradiction(
                ("preferred", index),
                f"{name!r} is preferred and not allowed",
                "only names in `allowed` are ever chosen",
                "add it to `allowed`, or remove it from `preferred`",
            )


def latency(preferred_s: Decimal | None, within_s: Decimal | None) -> Iterator[Found]:
    if preferred_s is not None and within_s is not None and preferred_s > within_s:
        yield _contradiction(
            ("preferred_startup_latency_seconds",),
            f"a start within {preferred_s} s is preferred, within {within_s} s required",
            "the preference is weaker than the requirement",
            f"prefer {within_s} or less, or remove the preference",
        )


def reserved(first: bool, types: Sequence[CapacityType]) -> Iterator[Found]:
    if first and types and CapacityType.RESERVED not in types:
        yield _contradiction(
            ("reserved_first",),
            "reserved capacity comes first and is not among `capacity_types`",
            "it would never be chosen",
            "add `reserved` to `capacity_types`, or remove `reserved_first`",
        )


def backoff(first_s: Decimal, most_s: Decimal) -> Iterator[Found]:
    if first_s > most_s:
        yield _contradiction(
            ("backoff_maximum_seconds",),
            f"the first pause, {first_s} s, is longer than the longest, {most_s} s",
            "no pause may be longer than the maximum",
            f"set `backoff_maximum_seconds: {first_s}` or more",
        )


def duplicates(policy: WhenUnknown, most_usd: Decimal | None) -> Iterator[Found]:
    allowed = policy is WhenUnknown.MAY_DUPLICATE
    if allowed and most_usd is None:
        yield _contradiction(
            ("retry", "when_unknown"),
            "`may_duplicate` without a limit of its cost",
            "an attempt that is given up while nobody can tell whether it runs may go on costing",
            "add `duplicate_cost: $2`, or as much as may be spent twice",
        )
    if not allowed and most_usd is not None:
        yield _contradiction(
            ("retry", "duplicate_cost"),
            f"a cost of duplicates where the policy is `{policy}`",
            "nothing is run twice under that policy",
            "remove it, or set `when_unknown: may_duplicate`",
        )


def doubled(repeat: Repeat, policy: WhenUnknown, runtime_s: Decimal | None) -> Iterator[Found]:
    if policy is not WhenUnknown.MAY_DUPLICATE:
        return
    if repeat is Repeat.AT_MOST_ONCE:
        yield _contradiction(
            ("repeat",),
            "`at_most_once`, where `retry.when_unknown` is `may_duplicate`",
            "going on while an attempt may run would run the program twice",
            "use `when_unknown: wait` or `ask`",
        )
    if runtime_s is None:
        yield _contradiction(
            ("retry",),
            "`when_unknown: may_duplicate` for a program without a runtime limit",
            "what the attempt that is given up may cost has no bound",
            "add `constraints: {maximum_runtime_seconds: 2h}`, or as long as it may take",
        )


def names(part: str, given: Sequence[str]) -> Iterator[Found]:
    seen: dict[str, int] = {}
    for index, name in enumerate(given):
        if name in seen:
            yield Found(
                code="duplicate_name",
                path=(part, index, "name"),
                what=f"{part}[{seen[name]}] is called {name!r} too",
                why="each is found by its name",
                fix=f"rename one of them, for example {name}-2",
            )
        seen.setdefault(name, index)


def places(part: str, given: Sequence[str]) -> Iterator[Found]:
    seen: dict[str, int] = {}
    for index, path in enumerate(given):
        if path in seen:
            yield Found(
                code="duplicate_name",
                path=(part, index, "path"),
                what=f"{part}[{seen[path]}] has the path {shown(path)} too",
                why="each needs a place of its own",
                fix="change one of the two paths",
            )
        seen.setdefault(path, index)


def variables(environment: Mapping[str, str], secrets: Mapping[str, str]) -> Iterator[Found]:
    for part, given in (("environment", environment), ("secrets", secrets)):
        for name in given:
            if name.startswith("PLACET_"):
                yield Found(
                    code="reserved_name",
                    path=(part, name),
                    what=f"{name} is set by Placet",
                    why="the program and its tools rely on it",
                    fix=f"choose another name, for example {name.removeprefix('PLACET_') or 'NAME'}",
                )
    for name in secrets:
        if name in environment:
            yield _contradiction(
                ("secrets", name),
                f"{name} is a variable and a secret",
                "it can have only one value",
                "remove it from `environment` or from `secrets`",
            )


def once(
    repeat: Repeat, attempts: int, by_class: Mapping[FailureClass, int], capacity: Sequence[CapacityType]
) -> Iterator[Found]:
    if repeat is not Repeat.AT_MOST_ONCE:
        return
    why = "a program that may run at most once is never started again"
    limits_given: list[tuple[Path, int]] = [(("retry", "attempts"), attempts)]
    limits_given += [(("retry", "by_class", str(name)), most) for name, most in by_class.items()]
    for path, number in limits_given:
        if number > 1:
            yield _contradiction(
                path,
                f"{number} attempts of a program that may run at most once",
                why,
                "set it to 1, or declare `repeat: safe` or `repeat: resumable`",
            )
    if capacity and set(capacity) <= {CapacityType.SPOT}:
        yield _contradiction(
            ("constraints", "capacity_types"),
            "spot capacity only, for a program that may run at most once",
            "what is taken back would have to be run again to finish",
            "add `on_demand` or `reserved`, or declare `repeat: safe` or `repeat: resumable`",
        )


def request_id(metadata: Mapping[str, str]) -> Iterator[Found]:
    both = [name for name in ("client_request_id", "clientRequestId") if name in metadata]
    if len(both) > 1:
        yield Found(
            code="duplicate_key",
            path=("metadata", both[1]),
            what="`client_request_id` is given in both naming styles",
            why="only one of them can count",
            fix="keep one of the two",
        )
    for name in both:
        if not re.fullmatch(r"[\x20-\x7e]{1,255}", metadata[name]):
            yield Found(
                code="bad_value",
                path=("metadata", name),
                what=f"{shown(metadata[name])} is not a request id",
                why=f"it is 1 to {limits.KEY_CHARACTERS_MAX} printable ASCII characters",
                fix="use for example a UUID",
            )


def grace(stop_grace_s: Decimal) -> Iterator[Found]:
    if stop_grace_s > STOP_GRACE_S_MAX:
        yield Found(
            code="out_of_range",
            path=("stop_grace_seconds",),
            what=f"{stop_grace_s} s is a very long grace",
            why="a cancel would seem to do nothing for that long",
            fix=f"write at most {STOP_GRACE_S_MAX}",
        )


def options(stated: Iterable[str], allowed: Sequence[str]) -> Iterator[Found]:
    for name in stated:
        if name not in allowed:
            yield _contradiction(
                ("provider_options", name),
                f"there are options for {name!r}, and `constraints.providers.allowed` does not name it",
                "another provider could be chosen, and would ignore them",
                f"add `constraints: {{providers: {{allowed: [{name}]}}}}`, or remove the options",
            )


def source(given: str | None) -> Iterator[Found]:
    why = None if given is None else _why_no_source(given)
    if given is not None and why is not None:
        yield Found(
            code="bad_source",
            path=("source",),
            what=f"{shown(given)} is not a source",
            why=why,
            fix="write a path, or a URL such as https://example.com/data.csv or storage://datasets/images",
        )


def _why_no_source(given: str) -> str | None:
    if not given.strip() or len(given) > limits.SOURCE_CHARACTERS_MAX or _CONTROL.search(given):
        return "it is empty, too long, or holds a control character"
    match = _SCHEME.match(given)
    if match is None:
        return (
            "`file:`, `http:` and the others are followed by `//`"
            if re.match("(file|https?|storage):", given)
            else None
        )
    scheme, rest = match[1].lower(), given[match.end() :]
    if scheme not in SCHEMES:
        return f"{scheme}:// is not one of " + ", ".join(f"{known}://" for known in sorted(SCHEMES))
    if scheme == "file":
        return _why_no_file(given)
    if _BLANK_OR_CONTROL.search(given):
        return "a URL has no blanks; write %20"
    if scheme in {"http", "https"}:
        return _why_no_web_address(given)
    if not _STORAGE.fullmatch(rest):
        return "a name of letters, digits, `.`, `_` and `-` follows the scheme"
    return "`..` would leave the named place" if ".." in rest.split("/") else None


def file_path(given: str) -> str:
    """The path that a ``file://`` URL names."""
    return unquote(given.partition("://")[2].partition("/")[1] + given.partition("://")[2].partition("/")[2])


def _why_no_file(given: str) -> str | None:
    host = given.partition("://")[2].partition("/")[0]
    if host not in {"", "localhost"}:
        return "a file URL has three slashes: file:///path"
    path = file_path(given)
    if not path.startswith("/") or _CONTROL.search(path) or "\ufffd" in path or _SCHEME.match(path):
        return "a file URL names an absolute path"
    return None


def _why_no_web_address(given: str) -> str | None:
    try:
        parts = urlsplit(given)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "its host or port cannot be read"
    if not host:
        return "it names no host"
    return "it holds a user name or password" if parts.username is not None or parts.password is not None else None
