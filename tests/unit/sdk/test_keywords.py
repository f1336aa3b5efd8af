"""Keyword arguments of a program: what is meant is taken, anything else is told as a mistake of the spec."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.sdk.client import document_of
from placet.sdk.errors import SpecError
from placet.sdk.keywords import KNOWN


def described(**fields: Any) -> Any:
    return document_of(None, fields, "submit")  # type: ignore[arg-type]  # what a program may give, right or wrong


@pytest.mark.parametrize(
    ("fields", "field", "kind"),
    [
        ({"command": [1]}, "command", "list with int in it"),
        ({"command": "python work.py"}, "command", "str"),
        ({"command": ["a"], "inputs": 5}, "inputs", "int"),
        ({"command": ["a"], "inputs": "data"}, "inputs", "str"),
        ({"command": ["a"], "inputs": [("a", "b")]}, "inputs", "list with tuple in it"),
        ({"command": ["a"], "outputs": {"a": 5}}, "outputs", "dict with int in it"),
        ({"command": ["a"], "environment": [("A", "1")]}, "environment", "list with tuple in it"),
        ({"command": ["a"], "labels": "team=a"}, "labels", "str"),
        ({"command": ["a"], "gpu_models": "H100"}, "gpu_models", "str"),
        ({"command": ["a"], "retries": "2"}, "retries", "str"),
        ({"python": b"work.py"}, "python", "bytes"),
        ({"python": "work.py", "requirements": "numpy==2.4.0"}, "requirements", "str"),
        ({"python": "work.py", "arguments": [None]}, "arguments", "list with NoneType in it"),
    ],
)
def test_a_value_of_another_kind_is_a_mistake_of_the_spec(fields: dict[str, Any], field: str, kind: str) -> None:
    with pytest.raises(SpecError, match="submit") as caught:
        described(**fields)
    [problem] = caught.value.problems
    assert (problem.code, problem.field) == ("wrong_type", field)
    assert f"is of type {kind} and has to be" in problem.what
    assert problem.fix == caught.value.fix
    assert f"{field}=" in problem.fix


def test_all_of_them_are_told_at_once() -> None:
    with pytest.raises(SpecError, match="and 2 more") as caught:
        described(command=[1], inputs=5, retries="x")
    assert [problem.field for problem in caught.value.problems] == ["command", "inputs", "retries"]


@pytest.mark.parametrize("spec", [None, {"runtime": {"type": "process", "command": ["a"]}}])
def test_a_name_that_is_none_is_told_with_those_there_are(spec: Any) -> None:
    with pytest.raises(TypeError) as caught:
        document_of(spec, {"bogus": 1}, "dry_run")  # type: ignore[typeddict-unknown-key]  # what is tested
    assert "dry_run() got an unexpected keyword argument 'bogus'" in str(caught.value)
    assert all(name in str(caught.value) for name in KNOWN)


@pytest.mark.parametrize("spec", [5, b"workload.yaml", ["a"]])
def test_what_is_no_spec_is_told_as_such(spec: Any) -> None:
    with pytest.raises(TypeError, match=r"size\(\) takes a path, a mapping or keyword arguments"):
        document_of(spec, {}, "size")


def test_paths_are_taken_wherever_texts_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").touch()
    told = described(command=("python", Path("work.py")), inputs={"d": Path("data")}, outputs=[Path("out")], name=None)
    assert told["runtime"]["command"] == ["python", str(tmp_path / "work.py")]
    assert told["inputs"] == [{"name": "d", "source": str(tmp_path / "data")}]
    assert told["outputs"] == [{"name": "out", "path": "out"}]
    assert described(python=Path("work.py"))["runtime"]["script"] == str(tmp_path / "work.py")


ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=3),
    st.sampled_from([object(), Path("x"), os, ...]),
)  # fmt: skip
VALUES = ATOMS | st.lists(ATOMS, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), ATOMS, max_size=3)


@given(
    st.fixed_dictionaries({}, optional={name: VALUES for name in KNOWN}),
    st.sampled_from([dict, lambda fields: {**fields, "command": ["true"]}]),
)
def test_whatever_is_given_is_taken_or_refused(fields: dict[str, Any], completed: Callable[[Any], Any]) -> None:
    with suppress(SpecError):
        assert described(**completed(fields))["runtime"]
