"""What people write, right and wrong: every sample has its verdict, every mistake its code, place, reason and fix."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from placet.contract.codes import CODES, Scope
from placet.contract.parse import Parsed, parse
from placet.contract.render import render
from placet.contract.schema import spec_schema
from placet.domain.problems import Problem

HERE = Path(__file__).parent
VALID = sorted((HERE / "valid").iterdir())
BROKEN = sorted((HERE / "broken").iterdir())
NOW_MS = 1_800_000_000_000


def expected(path: Path) -> list[tuple[str, str]]:
    first = path.read_text().splitlines()[0].removeprefix("# expect: ")
    pairs = [pair.split() for pair in first.split(";")]
    return [(code, "" if field == "-" else field) for code, field in pairs]


def problems_of(path: Path) -> tuple[Problem, ...]:
    outcome = parse(path.read_bytes(), now_ms=NOW_MS)
    assert not isinstance(outcome, Parsed), "accepted"
    return outcome


def accepted(path: Path) -> Parsed:
    outcome = parse(path.read_bytes(), now_ms=NOW_MS, check_support=False)
    assert isinstance(outcome, Parsed), outcome
    return outcome


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(spec_schema())
    return jsonschema.Draft202012Validator(spec_schema())


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_sample_is_accepted_and_shown_back(path: Path) -> None:
    first = accepted(path)
    again = parse(json.dumps(render(first.spec)), now_ms=NOW_MS, check_support=False)
    assert isinstance(again, Parsed), again
    assert again.spec == first.spec


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_what_is_shown_back_fits_the_schema(path: Path, validator: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(render(accepted(path).spec))] == []


@pytest.mark.parametrize("name", ["sample-snake.json", "sample-camel.json"])
def test_the_samples_are_valid_as_they_stand(name: str, validator: jsonschema.Draft202012Validator) -> None:
    text = (HERE / "valid" / name).read_text()
    outcome = parse(text, now_ms=NOW_MS)
    assert isinstance(outcome, Parsed), outcome
    assert outcome.warnings == ()
    assert list(validator.iter_errors(json.loads(text))) == []


def test_three_ways_of_writing_are_one_spec() -> None:
    names = ("sample-snake.json", "sample-camel.json", "sample-written-by-hand.yaml")
    specs = [accepted(HERE / "valid" / name) for name in names]
    assert specs[0].spec == specs[1].spec == specs[2].spec
    assert len({parsed.body_digest for parsed in specs}) == 1


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_sample_gets_exactly_its_codes(path: Path) -> None:
    found = [(problem.code, problem.field) for problem in problems_of(path)]
    assert found == expected(path)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_every_problem_says_what_why_and_what_to_do(path: Path) -> None:
    for problem in problems_of(path):
        assert CODES[problem.code].scope is Scope.SPEC
        assert problem.what
        assert problem.why
        assert problem.fix
        assert problem.line is not None or problem.code == "empty_document"
        assert all(len(text) < 400 for text in (problem.what, problem.why, problem.fix))


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_the_line_is_that_of_the_field(path: Path) -> None:
    lines = path.read_text().splitlines()
    for problem in problems_of(path):
        name = re.sub(r"\[[0-9]+\]", "", problem.field).rpartition(".")[2]
        if problem.line is None or not name or problem.code == "missing_field":
            continue
        camel = re.sub(r"_([a-z])", lambda match: match[1].upper(), name)
        line = lines[problem.line - 1]
        assert name in line or camel in line or line.lstrip().startswith("-"), (problem, line)


def test_there_are_at_least_thirty_broken_samples_of_many_kinds() -> None:
    assert len(BROKEN) >= 30
    assert len({code for path in BROKEN for code, _ in expected(path)}) >= 25


SCHEMA_CAN_TELL = (
    "unknown-field",
    "no-runtime",
    "no-image",
    "no-script",
    "output-without-path",
    "unknown-accelerator",
    "future-version",
    "command-as-text",
    "count-as-text",
    "providers-as-list",
    "empty-command",
    "no-attempts",
    "negative-memory",
    "unit-of-memory",
    "other-currency",
    "name-with-blank",
    "digest-too-short",
    "said-in-both-styles",
    "input-without-source",
    "number-in-environment",
    "unknown-failure-class",
    "half-a-gpu",
    "field-of-another-runtime",
)


@pytest.mark.parametrize("name", SCHEMA_CAN_TELL)
def test_the_schema_refuses_what_it_can_tell(name: str, validator: jsonschema.Draft202012Validator) -> None:
    document = yaml.safe_load((HERE / "broken" / f"{name}.yaml").read_text())
    assert list(validator.iter_errors(document)) != []
