"""Launch documents: what is accepted means one thing, everything else is refused with a sentence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.runner.launch import Invalid, Launch


def document(**changes: Any) -> dict[str, Any]:
    base = {
        "key": "placet-x-1",
        "nonce": "n",
        "deployment": "d",
        "workload_id": "wl_1",
        "epoch": 1,
        "command": ["/bin/true"],
    }
    return {**base, **changes}


def test_the_least_launch_has_bounds() -> None:
    launch = Launch(document())
    assert launch.limits.processes > 0
    assert launch.limits.log_bytes > 0
    assert launch.limits.memory_bytes is None
    assert not launch.wants_sandbox


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "../x"},
        {"key": ""},
        {"key": "A"},
        {"key": "x" * 97},
        {"key": None},
        {"nonce": ""},
        {"workload_id": "a/b"},
        {"workload_id": ".."},
        {"epoch": 0},
        {"epoch": True},
        {"command": []},
        {"command": ["a\0b"]},
        {"command": "x"},
        {"command": ["x"], "python": {"text": "x"}},
        {"command": [], "python": {}},
        {"command": [], "python": {"text": "x", "script": "/x"}},
        {"command": [], "python": {"script": "x.py"}},
        {"command": [], "python": {"text": "x", "requirements": ["-r other"]}},
        {"command": [], "python": {"text": "x", "requirements": ["a\n--index-url x"]}},
        {"env": {"A=B": "x"}},
        {"env": {"": "x"}},
        {"env": {"A": "x\0"}},
        {"env": {"A": 1}},
        {"workdir": "x"},
        {"limits": {"memory_bytes": -1}},
        {"limits": {"memory_bytes": 1}},
        {"limits": {"runtime_s": float("nan")}},
        {"limits": {"runtime_s": 0}},
        {"limits": {"cpu_cores": "2"}},
        {"limits": {"processes": 0}},
        {"sandbox": "magic"},
        {"hidden": ["relative"]},
        {"hidden": "/text"},
        {"inputs": [{"name": "../x", "kind": "text", "source": "x"}]},
        {"inputs": [{"name": "x", "kind": "path", "source": "relative"}]},
        {"inputs": [{"name": "x", "kind": "odd", "source": "x"}]},
        {"inputs": [{"name": "x", "kind": "text", "source": "1"}, {"name": "x", "kind": "text", "source": "2"}]},
        {"outputs": [{"name": "x", "path": "/etc"}]},
        {"outputs": [{"name": "x", "path": "/outputsx"}]},
        {"outputs": [{"name": "x", "path": "a/../../b"}]},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        Launch(document(**changes))


@pytest.mark.parametrize(
    ("path", "root", "pattern"),
    [
        ("out.txt", "work", "out.txt"),
        ("./a//b/", "work", "a/b"),
        ("/outputs", "outputs", ""),
        ("/outputs/a/*.json", "outputs", "a/*.json"),
    ],
)
def test_output_paths_have_a_root(path: str, root: str, pattern: str) -> None:
    output = Launch(document(outputs=[{"name": "x", "path": path}])).outputs[0]
    assert (output.root, output.pattern) == (root, pattern)


def test_absolute_places_ask_for_the_sandbox() -> None:
    assert Launch(document(outputs=[{"name": "x", "path": "/outputs/x"}])).wants_sandbox
    assert Launch(document(inputs=[{"name": "x", "kind": "text", "source": "x"}])).wants_sandbox
    assert not Launch(document(outputs=[{"name": "x", "path": "x"}])).wants_sandbox
    assert not Launch(document(outputs=[{"name": "x", "path": "/outputs/x"}], sandbox="none")).wants_sandbox


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["key", "nonce", "epoch", "command", "python", "env", "limits", "reserve", "inputs", "outputs", "sandbox"]


@given(st.sampled_from(FIELDS), JSON)
def test_any_document_is_accepted_or_refused_and_nothing_else(field: str, value: Any) -> None:
    try:
        launch = Launch(document(**{field: value}))
    except Invalid:
        return
    assert launch.key
