"""What is sent says the same wherever the server runs: every path of the client is absolute."""

from pathlib import Path
from typing import Any

import pytest

from placet.sdk.errors import SpecError
from placet.sdk.specs import Inline, from_file, from_inline, from_mapping


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text("print(1)")
    (tmp_path / "data").mkdir()
    return tmp_path


def mapping(**more: Any) -> dict[str, Any]:
    return {"runtime": {"type": "process", "command": ["true"]}, **more}


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ("./data", "{base}/data"),
        ("data/../data/x", "{base}/data/x"),
        ("../other", "{parent}/other"),
        ("/abs/data", "/abs/data"),
        ("https://host.example/x", "https://host.example/x"),
        ("storage://alias/x", "storage://alias/x"),
    ],
)
def test_sources_are_settled(folder: Path, source: str, sent: str) -> None:
    document: Any = from_mapping(mapping(inputs=[{"name": "a", "source": source}]), folder)
    assert document["inputs"][0]["source"] == sent.format(base=folder, parent=folder.parent)


@pytest.mark.parametrize("field", ["working_directory", "workingDirectory"])
def test_paths_of_a_file_are_settled_against_its_folder(folder: Path, field: str) -> None:
    file = folder / "spec.yaml"
    file.write_text(
        f"runtime: {{type: python, script: work.py, {field}: sub}}\n"
        "resources: {cpu_cores: 0.5}\ninputs:\n  - {name: t, text: ./not/a/path}\n  - {name: d, source: data}\n"
    )
    document: Any = from_file(file)
    assert document["runtime"] == {"type": "python", "script": f"{folder}/work.py", field: f"{folder}/sub"}
    assert document["inputs"] == [{"name": "t", "text": "./not/a/path"}, {"name": "d", "source": f"{folder}/data"}]
    assert document["resources"]["cpu_cores"] == 0.5


def test_an_image_has_its_own_paths(folder: Path) -> None:
    runtime = {"type": "container", "image": "a:b", "command": ["./run.sh"], "working_directory": "src"}
    document: Any = from_mapping({"spec": {"runtime": runtime}}, folder)
    assert document["runtime"] == runtime


def test_a_program_of_the_folder_is_settled_and_its_arguments_are_not(folder: Path) -> None:
    document: Any = from_mapping({"runtime": {"type": "process", "command": ["./run.sh", "./x"]}}, folder)
    assert document["runtime"]["command"] == [f"{folder}/run.sh", "./x"]


def test_all_mistakes_with_their_lines_and_nothing_sent(folder: Path) -> None:
    file = folder / "spec.yaml"
    file.write_text("runtime:\n  type: process\n  command: [x]\nresources:\n  cpu_coers: 1\n  disk_gb: 24 parsecs\n")
    with pytest.raises(SpecError) as caught:
        from_file(file)
    assert [problem.line for problem in caught.value.problems] == [5, 6]
    assert "cpu_cores" in caught.value.problems[0].fix


def test_inline_is_the_same_as_written_out(folder: Path) -> None:
    document = from_inline(
        Inline(
            command=("python", "work.py", "--n", "3", "none.py"),
            gpu_memory="24GB",
            cpu=2,
            memory="8GB",
            timeout="2h",
            max_cost=5,
            retries=2,
            inputs=("./data", "weights=https://host.example/w"),
            outputs=("out.jsonl",),
            labels={"team": "a"},
        ),
        folder,
    )
    assert document == {
        "runtime": {"type": "process", "command": ["python", f"{folder}/work.py", "--n", "3", "none.py"]},
        "resources": {"minimum_gpu_memory_gb": "24GB", "cpu_cores": 2, "system_memory_gb": "8GB"},
        "constraints": {"maximum_runtime_seconds": "2h", "maximum_estimated_cost": 5},
        "retry": {"attempts": 3},
        "inputs": [
            {"name": "data", "source": f"{folder}/data"},
            {"name": "weights", "source": "https://host.example/w"},
        ],
        "outputs": [{"name": "out.jsonl", "path": "out.jsonl"}],
        "labels": {"team": "a"},
    }


def test_inline_python(folder: Path) -> None:
    document: Any = from_inline(Inline(python="work.py", arguments=("-v",), requirements=("numpy==2.4.0",)), folder)
    assert document["runtime"] == {
        "type": "python",
        "script": f"{folder}/work.py",
        "arguments": ["-v"],
        "requirements": ["numpy==2.4.0"],
    }


@pytest.mark.parametrize("inline", [Inline(), Inline(command=("a",), python="b.py")])
def test_one_program_and_no_more(folder: Path, inline: Inline) -> None:
    with pytest.raises(SpecError, match="one of the two"):
        from_inline(inline, folder)
