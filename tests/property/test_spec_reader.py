"""Whatever is sent, the answer is a value; and what is accepted has one canonical form that is read back equal."""

import json
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from placet.contract.canonical import body_digest, canonical_json, spec_digest, spec_from_json
from placet.contract.codes import CODES
from placet.contract.parse import Parsed, parse
from placet.contract.render import render
from placet.domain.problems import Problem

NOW_MS = 1_800_000_000_000
SAMPLES = Path(__file__).parents[1] / "contract"
TEXTS = [path.read_text() for folder in ("valid", "broken") for path in sorted((SAMPLES / folder).iterdir())]
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def outcome_of(document: bytes | str) -> Parsed | tuple[Problem, ...]:
    """Parse in every form and check what holds for any answer; the last answer is given back."""
    outcome: Parsed | tuple[Problem, ...] = ()
    for form in ("json", "yaml", None):
        outcome = parse(document, now_ms=NOW_MS, form=form, check_support=False)
        if isinstance(outcome, Parsed):
            stays_itself(outcome)
            continue
        assert outcome, "refused without a reason"
        for problem in outcome:
            assert problem.code in CODES
            assert all((problem.what, problem.why, problem.fix))
            json.dumps(problem.what + problem.why + problem.fix + problem.field)
    return outcome


def stays_itself(parsed: Parsed) -> None:
    spec = parsed.spec
    canonical = canonical_json(spec)
    assert spec_from_json(canonical) == spec
    assert canonical_json(spec_from_json(canonical)) == canonical
    canonical.decode("utf-8")
    again = parse(json.dumps(render(spec)), now_ms=NOW_MS + 12_345, form="json", check_support=False)
    assert isinstance(again, Parsed), again
    assert again.spec == spec
    assert spec_digest(again.spec) == spec_digest(spec)


@PATIENT
@given(st.binary(max_size=400))
@example(b"\xff\xfe")
@example(b"[" * 100_000)
@example(b'{"a":' * 5_000)
@example(b"- " * 30_000)
@example(b"? " * 30_000)
@example(b"a: " + b"9" * 5_000)
@example(b'{"runtime":' + b"9" * 5_000 + b"}")
@example(b'{"a": 1e999999999}')
@example(b'{"runtime": {"type": "process", "command": ["\\ud800"]}}')
@example(b'{"runtime": {"type": "process", "command": ["\\u0000"]}, "labels": {"\\ud800": "x"}}')
@example(b"&a [*a, *a]")
@example(b"%YAML 9.9\n---\n")
@example(b"%TAG ! tag:example.com,2000:\n--- !x\n")
@example(b'"\\UFFFFFFFF": 1')
@example(b"\xef\xbb\xbfruntime: {}")
@example(b"{}" * 2_000)
@example(b'{"spec": {"spec": {}}}')
@example(b"a_b: {a_b: {a_b: {a_b: {a_b: {a_b: {a_b: {a_b: {a_b: .nan}}}}}}}}")
@example(b'{"a_b":' * 60 + b"NaN" + b"}" * 60)
def test_any_bytes_get_an_answer(document: bytes) -> None:
    outcome_of(document)


NAMES = [
    "runtime",
    "type",
    "command",
    "image",
    "script",
    "resources",
    "cpu_cores",
    "cpuCores",
    "minimum_gpu_memory_gb",
    "gpuCount",
    "constraints",
    "deadline",
    "providers",
    "allowed",
    "inputs",
    "name",
    "source",
    "text",
    "outputs",
    "path",
    "environment",
    "secrets",
    "retry",
    "by_class",
    "array",
    "volumes",
    "size_gb",
    "labels",
    "metadata",
    "client_request_id",
    "model",
    "log_limit",
    "version",
    "spec",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["24GB", "2h", "$5", "+2h", "2027-01-31T00:00:00Z", "/outputs/a", "..", "~", "", "process", "-1"]),
)
names = st.one_of(
    st.sampled_from(NAMES),
    st.text(max_size=8),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=5)),
    max_leaves=30,
)


@PATIENT
@given(st.dictionaries(names, anything, max_size=8))
@example({"[key]": 1})
@example({"runtime": {"[key]": 1}, "labels": {"[key]": 1, " ": ""}})
def test_any_json_gets_an_answer(document: dict[str, object]) -> None:
    outcome_of(json.dumps(document))


@PATIENT
@given(st.data())
def test_a_damaged_text_gets_an_answer(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 6))
        piece = data.draw(
            st.one_of(
                st.text(max_size=4), st.sampled_from(['"', "{", "]", ": ", "\n", "&a ", "*a", "!!x ", "-", "\x00"])
            )
        )
        text = text[:start] + piece + text[start + length :]
    outcome_of(text.encode("utf-8", "surrogatepass"))


EVERYTHING: dict[str, Any] = render(
    parse((SAMPLES / "valid" / "everything.yaml").read_text(), now_ms=NOW_MS, check_support=False).spec  # type: ignore[union-attr] # it is valid
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(found for key, held in inner for found in places(held, (*path, key)))]


PLACES = places(EVERYTHING)


@PATIENT
@given(st.sampled_from(PLACES), st.sampled_from(PLACES), anything)
def test_a_document_with_two_wrong_values_gets_an_answer(
    first: tuple[str | int, ...], second: tuple[str | int, ...], value: object
) -> None:
    document = deepcopy(EVERYTHING)
    for path in (first, second):
        put(document, path, value)
    outcome_of(json.dumps(document))


def put(document: Any, path: tuple[str | int, ...], value: object) -> None:
    """Replace what stands at the path, if the way there still exists."""
    for step in path[:-1]:
        if not isinstance(document, dict | list) or not reaches(document, step):
            return
        document = document[step]
    if path and isinstance(document, dict | list) and reaches(document, path[-1]):
        document[path[-1]] = deepcopy(value)


def reaches(document: Any, step: str | int) -> bool:
    return step in document if isinstance(document, dict) else isinstance(step, int) and step < len(document)


def joined(pair: tuple[int, str]) -> str:
    return f"{pair[0]}{pair[1]}"


memory = st.one_of(
    st.integers(1, 4_000),
    st.decimals("0.001048576", "4000", places=9).map(lambda amount: format(amount, "f")),
    st.tuples(st.integers(2, 900), st.sampled_from(["MB", "GB", "MiB", "GiB", " gib", "g"])).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
)
duration = st.one_of(
    st.integers(1, 10**6),
    st.decimals("0.001", "86400", places=6).map(lambda amount: format(amount, "f")),
    st.tuples(st.integers(1, 99), st.sampled_from(["s", "m", "h", "d"])).map(joined),
)
words = st.text("abcxyz019._-", min_size=1, max_size=12).map(lambda text: "n" + text)
safe_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), max_size=30)
variables = st.dictionaries(st.text("ABC_", min_size=1, max_size=5).map(lambda text: "V" + text), safe_text, max_size=4)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


resources = optional(
    minimum_gpu_memory_gb=memory,
    gpu_count=st.integers(1, 16),
    gpu_models=st.lists(words, max_size=3),
    gpu_features=st.lists(st.sampled_from(["bf16", "fp8", "nvlink"]), max_size=3),
    minimum_compute_capability=st.sampled_from(["8.0", 8, 9.0, "12.1"]),
    cpu_cores=st.one_of(st.integers(1, 200), st.sampled_from([0.5, "1.25"])),
    system_memory_gb=memory,
    disk_gb=memory,
    processes=st.integers(1, 4096),
    nodes=st.integers(1, 8),
)
constraints = optional(
    maximum_runtime_seconds=duration,
    maximum_estimated_cost=st.one_of(st.integers(0, 999), st.sampled_from(["$1.50", "0.000000001", 0.1])),
    deadline=st.sampled_from(["+2h", "2027-01-31T18:00:00.123456+05:30", "1999-01-01T00:00:00Z"]),
    regions=optional(denied=st.lists(words, max_size=3)),
    capacity_types=st.lists(st.sampled_from(["reserved", "spot"]), max_size=2),
)
programs = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("process"), "command": st.lists(safe_text, max_size=3).map(lambda rest: ["run", *rest])}
    ),
    st.fixed_dictionaries(
        {"type": st.just("container"), "image": words}, optional={"entrypoint": st.lists(safe_text, max_size=2)}
    ),
    st.fixed_dictionaries(
        {"type": st.just("python"), "script_text": safe_text, "arguments": st.lists(safe_text, max_size=2)}
    ),
)
inputs = st.fixed_dictionaries({"name": words, "text": safe_text})
outputs = st.fixed_dictionaries({"name": words, "path": words})
valid = st.fixed_dictionaries(
    {"runtime": programs},
    optional={
        "name": words,
        "resources": resources,
        "constraints": constraints,
        "inputs": st.lists(inputs, max_size=3, unique_by=itemgetter("name")),
        "outputs": st.lists(outputs, max_size=3, unique_by=(itemgetter("name"), itemgetter("path"))),
        "environment": variables,
        "labels": st.dictionaries(words, safe_text, max_size=3),
        "metadata": st.dictionaries(words, safe_text, max_size=3),
        "log_limit": st.sampled_from(["1MB", "64 MiB"]),
        "stop_grace_seconds": st.integers(0, 60),
        "objective": st.sampled_from(["cost", "speed", "balanced", "reliability"]),
        "earlier_artifacts": st.sampled_from(["keep", "replace"]),
    },
)


@PATIENT
@given(valid)
def test_a_valid_document_is_accepted_and_stays_itself(document: dict[str, Any]) -> None:
    outcome = parse(json.dumps(document), now_ms=NOW_MS, check_support=False)
    assert isinstance(outcome, Parsed), outcome
    stays_itself(outcome)


def camel(value: Any, free: bool = False) -> Any:
    """The document in the other naming style; the keys of free mappings are nobody's to change."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    loose = {"environment", "labels", "metadata", "secrets", "by_class"}
    return {(key if free else in_camel(key)): camel(held, key in loose) for key, held in value.items()}


def in_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


@PATIENT
@given(valid)
def test_both_naming_styles_are_one_spec(document: dict[str, Any]) -> None:
    one = parse(json.dumps(document), now_ms=NOW_MS, check_support=False)
    other = parse(json.dumps(camel(document)), now_ms=NOW_MS, check_support=False)
    assert isinstance(one, Parsed), one
    assert isinstance(other, Parsed), other
    assert one.spec == other.spec
    assert one.body_digest == other.body_digest


@PATIENT
@given(valid, st.integers(0, 10**12))
def test_a_repeated_request_has_the_same_body_digest(document: dict[str, Any], later_ms: int) -> None:
    first = parse(json.dumps(document), now_ms=NOW_MS, check_support=False)
    metadata = document.get("metadata", {}) | {"client_request_id": "again"}
    second = parse(json.dumps(document | {"metadata": metadata}), now_ms=NOW_MS + later_ms, check_support=False)
    assert isinstance(first, Parsed), first
    assert isinstance(second, Parsed), second
    assert first.body_digest == second.body_digest


@PATIENT
@given(valid, st.sampled_from(["name", "cores", "environment"]))
def test_another_request_has_another_digest(document: dict[str, Any], part: str) -> None:
    changes: dict[str, Callable[[], dict[str, Any]]] = {
        "name": lambda: {"name": document.get("name", "n") + "x"},
        "cores": lambda: {"resources": document.get("resources", {}) | {"cpu_cores": 777}},
        "environment": lambda: {"environment": document.get("environment", {}) | {"ANOTHER": "value"}},
    }
    first = parse(json.dumps(document), now_ms=NOW_MS, check_support=False)
    second = parse(json.dumps(document | changes[part]()), now_ms=NOW_MS, check_support=False)
    assert isinstance(first, Parsed), first
    assert isinstance(second, Parsed), second
    assert body_digest(first.spec) != body_digest(second.spec)
    assert spec_digest(first.spec) != spec_digest(second.spec)


@given(st.decimals("0.000004096", "999999999", places=9))
def test_memory_is_exact_to_the_byte(gigabytes: Decimal) -> None:
    document = {"runtime": {"type": "process", "command": ["x"]}, "resources": {"disk_gb": format(gigabytes, "f")}}
    parsed = parse(json.dumps(document), now_ms=NOW_MS)
    assert isinstance(parsed, Parsed), parsed
    assert parsed.spec.resources.disk_bytes == int(gigabytes * 10**9)
    stays_itself(parsed)
