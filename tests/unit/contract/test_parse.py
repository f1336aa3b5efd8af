"""The reader of specs: what is accepted means what was written, and limits hold."""

import json
import time
from decimal import Decimal

import pytest

from placet.contract import limits
from placet.contract.canonical import canonical_json, spec_from_json
from placet.contract.parse import Parsed, parse
from placet.domain.problems import Problem
from placet.domain.spec import Accelerator, InputKind, Spec
from placet.domain.units import GB, GIB, HOUR_MS, MB

NOW_MS = 1_800_000_000_000
PROCESS = "runtime: {type: process, command: [work]}\n"


def spec_of(text: str) -> Spec:
    outcome = parse(text, now_ms=NOW_MS, check_support=False)
    assert isinstance(outcome, Parsed), outcome
    return outcome.spec


def problems_of(text: str | bytes, **options: str) -> tuple[Problem, ...]:
    outcome = parse(text, now_ms=NOW_MS, form=options.get("form"))  # type: ignore[arg-type] # one of two words
    assert not isinstance(outcome, Parsed), outcome
    return outcome


def codes_of(text: str | bytes, **options: str) -> list[str]:
    return [problem.code for problem in problems_of(text, **options)]


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("24", 24 * GB),
        ("24GB", 24 * GB),
        ("24 GB", 24 * GB),
        ("24GiB", 24 * GIB),
        ("0.5TB", 500 * GB),
        ("512MB", 512 * MB),
    ],
)
def test_memory_is_read_as_people_write_it(written: str, amount: int) -> None:
    assert spec_of(PROCESS + f"resources: {{disk_gb: {written}}}").resources.disk_bytes == amount


@pytest.mark.parametrize(
    ("written", "seconds"), [("7200", 7200), ("2h", 7200), ("90m", 5400), ("1h30m", 5400), ("0.5", "0.5")]
)
def test_durations_are_read_as_people_write_them(written: str, seconds: int | str) -> None:
    spec = spec_of(PROCESS + f"constraints: {{maximum_runtime_seconds: {written}}}")
    assert spec.constraints.runtime_s == Decimal(seconds)


@pytest.mark.parametrize("written", ["5", "$5", "5.00", "5 USD"])
def test_money_is_read_as_people_write_it(written: str) -> None:
    spec = spec_of(PROCESS + f"constraints: {{maximum_estimated_cost: {written}}}")
    assert str(spec.constraints.cost_usd) == "5"


def test_a_deadline_is_a_moment_or_a_time_from_now() -> None:
    dated = spec_of(PROCESS + "constraints: {deadline: 2027-01-15T09:00:00+01:00}")
    assert dated.constraints.deadline_ms == NOW_MS
    outcome = parse(PROCESS + "constraints: {deadline: +2h}", now_ms=NOW_MS)
    assert isinstance(outcome, Parsed)
    assert outcome.spec.constraints.deadline_ms == NOW_MS + 2 * HOUR_MS
    assert outcome.deadline_after_ms == 2 * HOUR_MS


@pytest.mark.parametrize(
    "stated",
    ["minimum_gpu_memory_gb: 24", "gpu_models: [A]", "gpu_count: 1", "accelerator: gpu", "gpu_features: [bf16]"],
)
def test_a_gpu_is_implied(stated: str) -> None:
    resources = spec_of(PROCESS + f"resources: {{{stated}}}").resources
    assert resources.accelerator is Accelerator.GPU
    assert resources.gpu_count == 1


def test_no_gpu_is_implied_by_nothing() -> None:
    assert spec_of(PROCESS).resources.accelerator is Accelerator.NONE
    assert spec_of(PROCESS + "resources: {gpu_count: 0}").resources.gpu_count == 0


@pytest.mark.parametrize(
    ("source", "kind", "kept"),
    [
        ("./data", InputKind.PATH, "./data"),
        ("file:///srv/a%20b", InputKind.PATH, "/srv/a b"),
        ("HTTPS://example.com/x", InputKind.HTTP, "https://example.com/x"),
        ("storage://datasets/a", InputKind.STORAGE, "storage://datasets/a"),
        ("s3://bucket/a", InputKind.STORAGE, "s3://bucket/a"),
        ("C:/data", InputKind.PATH, "C:/data"),
    ],
)
def test_a_source_says_how_it_is_found(source: str, kind: InputKind, kept: str) -> None:
    given = spec_of(PROCESS + f'inputs: [{{name: a, source: "{source}"}}]').inputs[0]
    assert (given.kind, given.source) == (kind, kept)


@pytest.mark.parametrize(
    "source",
    [
        "http://",
        "https://u:p@h/x",
        "storage://../x",
        "storage://a/../b",
        "file://host/x",
        "http:x",
        "https://h/a b",
        " ",
    ],
)
def test_a_source_that_cannot_be_right_is_refused(source: str) -> None:
    assert codes_of(PROCESS + f'inputs: [{{name: a, source: "{source}"}}]') == ["bad_source"]


def test_the_request_id_may_be_in_either_style() -> None:
    spec = spec_of(PROCESS + "metadata: {clientRequestId: abc}")
    assert spec.metadata == (("client_request_id", "abc"),)


def test_an_envelope_is_opened_and_lines_are_kept() -> None:
    outcome = parse('{"spec": {"runtime": {"type": "process", "command": ["a"]}}}', now_ms=NOW_MS)
    assert isinstance(outcome, Parsed)
    (problem,) = problems_of(
        '{"spec": {"runtime": {"type": "process", "command": ["a"]},\n"resources": {\n"cpuCores": "x"}}}'
    )
    assert (problem.field, problem.line) == ("resources.cpu_cores", 3)


def test_json_is_strict_when_it_is_said_to_be_json() -> None:
    assert codes_of(PROCESS, form="json") == ["syntax_error"]
    assert codes_of('{"runtime": {"type": "process", "command": ["a"],}}') == ["syntax_error"]
    assert isinstance(parse("{runtime: {type: process, command: [a]}}", now_ms=NOW_MS, form="yaml"), Parsed)


def test_duplicate_keys_in_json_have_their_place() -> None:
    text = '{"runtime": {"type": "process", "command": ["a"]},\n "resources": {"cpu_cores": 1,\n "cpu_cores": 2}}'
    assert [(problem.code, problem.field, problem.line) for problem in problems_of(text)] == [
        ("duplicate_key", "resources.cpu_cores", 3)
    ]


def test_limits_of_size() -> None:
    assert codes_of(b"{" + b" " * limits.JSON_BYTES_MAX + b"}") == ["too_large"]
    assert codes_of("# " + "x" * limits.YAML_BYTES_MAX) == ["too_large"]
    keys = ", ".join(f'"K{number}": "x"' for number in range(limits.KEYS_PER_MAP_MAX + 1))
    process = '"runtime": {"type": "process", "command": ["a"]}'
    assert codes_of(f'{{{process}, "environment": {{{keys}}}}}') == ["too_large"]
    assert codes_of(f"{{{process}, environment: {{{keys}}}}}", form="yaml") == ["too_large"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "- " * 30_000,
        "a: &a [" + "*a," * 20_000 + "]",
        "{" * 60_000,
        "? " * 30_000,
        "a:\n" + " b: c\n" * 8_000,
        '{"a": [' + "1," * 500_000 + "1]}",
        '{"x": ' * 900 + "1" + "}" * 900,
        '{"runtime": "' + "\\u0041" * 150_000 + '"}',
        "x" * 60_000 + ": 1",
        "'" * 60_000,
        "!" * 60_000,
        "%" * 60_000,
        "|\n" * 30_000,
        '{"a_b": 1, "' + "_a" * 250_000 + '": 2}',
    ],
    ids=range(15),
)
def test_a_hostile_document_is_refused_soon(text: str) -> None:
    begun_s = time.process_time()
    assert problems_of(text)
    assert time.process_time() - begun_s < 5


def test_the_answer_stays_small() -> None:
    many = ", ".join(f'"field{number}": {number}' for number in range(900))
    assert len(problems_of('{"runtime": {"type": "process", "command": ["a"]}, ' + many + "}")) == limits.PROBLEMS_MAX


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("resources: {cpu_core: 1}", "`cpu_cores`"),
        ("resources: {minimumGPUMemoryGB: 1}", "`minimum_gpu_memory_gb`"),
        ("resources: {vram: 1}", "`minimum_gpu_memory_gb`"),
        ("env: {}", "`environment`"),
        ("timeout: 3", "`constraints.maximum_runtime_seconds`"),
        ("gpuCount: 3", "`resources.gpu_count`"),
        ("constraint: {}", "`constraints`"),
        ("outputs: [{name: a, path: a, mediatype: text/plain}]", "`media_type`"),
    ],
)
def test_a_misspelt_field_is_recognised(wrong: str, right: str) -> None:
    (problem,) = problems_of(PROCESS + wrong)
    assert problem.code == "unknown_field"
    assert problem.fix == f"did you mean {right}?"


def test_a_misspelt_required_field_is_told_once() -> None:
    assert codes_of("runtime: {type: process, comand: [a]}") == ["unknown_field"]


def test_a_command_in_one_text_is_split_for_the_user() -> None:
    (problem,) = problems_of("runtime: {type: process, command: python 'my work.py'}")
    assert problem.fix == 'write a list: `command: ["python", "my work.py"]`'


def test_words_that_other_readers_change_stay_text() -> None:
    spec = spec_of("runtime: {type: process, command: [no, 012, 1:30, 2027-01-31, yes, 0o7, 1_000]}")
    assert spec.runtime.command == ("no", "012", "1:30", "2027-01-31", "yes", "0o7", "1_000")


def test_null_means_not_stated_and_hides_no_misspelt_field() -> None:
    assert spec_of(PROCESS + "resources:\nname: null\nretry: {attempts: }\n") == spec_of(PROCESS)
    assert codes_of(PROCESS + "resorces:\n") == ["unknown_field"]
    assert codes_of('{"runtime": null}') == ["missing_field"]


def test_text_may_hold_line_ends_and_no_other_control_characters() -> None:
    document = {"runtime": {"type": "process", "command": ["a\n\tb\r\n"]}}
    assert spec_of(json.dumps(document)).runtime.command == ("a\n\tb\r\n",)
    for bad in ("\x00", "\x1b", "\x7f", "\x85", "\ud800"):
        document["runtime"]["command"] = [f"a{bad}"]
        assert codes_of(json.dumps(document)) == ["bad_text"]
    assert codes_of(b"runtime: \xff") == ["bad_text"]
    assert codes_of("runtime: \x1b") == ["bad_text"]


def test_an_empty_document_is_not_an_error_of_syntax() -> None:
    assert codes_of("") == codes_of("   \n") == codes_of("# only words\n") == ["empty_document"]


PAST = """\
runtime: {type: process, command: ["true"]}
constraints:
  maximum_runtime_seconds: 60
  deadline: 2020-01-01T00:00:00Z
"""


def test_what_cannot_hold_now_is_found_when_asked_with_its_line() -> None:
    now_ms = 1_800_000_000_000
    assert isinstance(parse(PAST, now_ms=now_ms), Parsed)  # it was accepted once, and a known key is never refused
    found = parse(PAST, now_ms=now_ms, check_now=True)
    assert not isinstance(found, Parsed)
    assert [(one.code, one.field, one.line) for one in found] == [("deadline_passed", "constraints.deadline", 4)]
    later = PAST.replace("2020", "2100")
    assert isinstance(parse(later, now_ms=now_ms, check_now=True), Parsed)
    late_start = later.replace("2100-01-01T00:00:00Z", "+1m\n  start_within_seconds: 90")
    found = parse(late_start, now_ms=now_ms, check_now=True)
    assert not isinstance(found, Parsed)
    assert [(one.code, one.line) for one in found] == [("contradiction", 5)]


IMAGE = "runtime: {type: container, image: 'registry.example.com/a:v1', image_size_gb: %s}\n"


def test_sizes_of_images_and_inputs_come_and_go_in_gigabytes() -> None:
    spec = spec_of(IMAGE % "7.5" + "inputs: [{name: a, source: 'https://example.com/x', size_gb: 0.000000012}]")
    assert (spec.runtime.image_bytes, spec.inputs[0].size_bytes) == (7_500_000_000, 12)
    assert spec_from_json(canonical_json(spec)) == spec
    assert spec_of(PROCESS + "inputs: [{name: a, source: /x, size_gb: 0}]").inputs[0].size_bytes == 0


@pytest.mark.parametrize(
    ("written", "code", "field"),
    [
        (IMAGE % "0", "out_of_range", "runtime.image_size_gb"),
        (IMAGE % "large", "bad_unit", "runtime.image_size_gb"),
        (PROCESS + "inputs: [{name: a, source: /x, size_gb: -1}]", "out_of_range", "inputs[0].size_gb"),
        (PROCESS + "inputs: [{name: a, text: abc, size_gb: 1}]", "contradiction", "inputs[0].size_gb"),
    ],
)
def test_sizes_that_cannot_be_are_refused(written: str, code: str, field: str) -> None:
    found = parse(written, now_ms=0)
    assert not isinstance(found, Parsed)
    assert [(one.code, one.field) for one in found] == [(code, field)]


def test_what_is_wrong_in_a_list_does_not_make_the_list_empty() -> None:
    [problem] = problems_of("runtime: {type: process, command: [true]}\n")
    assert (problem.code, problem.field) == ("wrong_type", "runtime.command[0]")


def test_all_that_is_wrong_with_a_duplicate_is_told_at_once() -> None:
    found = problems_of(PROCESS + "repeat: at_most_once\nretry: {when_unknown: may_duplicate}\n")
    assert {problem.field for problem in found} == {"repeat", "retry", "retry.when_unknown"}


def test_a_field_of_the_same_name_elsewhere_is_told_with_its_place() -> None:
    [problem] = problems_of(PROCESS + "retry: {repeat: safe}\n")
    assert problem.fix == "did you mean `repeat` at the top of the spec, not in `retry`?"


def test_a_volume_of_no_size_is_no_matter_of_memory() -> None:
    problem = problems_of(PROCESS + "volumes: [{name: a, path: /a, size_gb: 0}]\n")[0]
    assert problem.what == "0 is too small for the size of a volume"
