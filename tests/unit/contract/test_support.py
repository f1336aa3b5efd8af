"""What is refused because nothing acts on it, what is warned of, and the digests of specs."""

import json
from dataclasses import replace

import pytest

from placet.contract.canonical import body_digest, canonical_json, client_request_id, spec_digest, spec_from_json
from placet.contract.parse import Parsed, parse
from placet.contract.support import unsupported
from placet.contract.suspicion import looks_secret
from placet.domain.spec import Accelerator, Runtime, RuntimeKind, Spec

NOW_MS = 1_800_000_000_000
PROCESS = "runtime: {type: process, command: [work]}\n"


def accepted(text: str, *, now_ms: int = NOW_MS) -> Parsed:
    outcome = parse(text, now_ms=now_ms)
    assert isinstance(outcome, Parsed), outcome
    return outcome


def test_a_container_is_valid_though_no_local_offer_takes_it() -> None:
    assert unsupported(accepted("runtime: {type: container, image: a}").spec) == ()


def test_checkpoints_and_preferences_are_supported() -> None:
    text = PROCESS + "checkpoints: state\nrepeat: resumable\nretry: {by_class: {lost: 5}}\n"
    assert accepted(text + "constraints: {regions: {preferred: [eu]}, compliance: [soc2]}").warnings == ()


def test_a_model_without_a_gpu_is_recorded_with_a_warning() -> None:
    outcome = accepted(PROCESS + "resources: {accelerator: none}\nmodel: {parameters: 7B, task: inference}\n")
    assert outcome.spec.model is not None
    assert outcome.spec.model.parameters == 7 * 10**9
    assert [(warning.code, warning.line) for warning in outcome.warnings] == [("recorded_only", 3)]


@pytest.mark.parametrize(
    ("text", "accelerator", "count"),
    [
        ("model: {parameters: 7B, task: lora}", Accelerator.GPU, 0),
        ("model: {parameters: 7B}", Accelerator.NONE, 0),
        ("model: {parameters: 7B, task: lora}\nresources: {accelerator: none}", Accelerator.NONE, 0),
        ("model: {parameters: 7B, task: lora}\nresources: {gpu_count: 2}", Accelerator.GPU, 2),
        ("model: {parameters: 7B}\nresources: {accelerator: gpu}", Accelerator.GPU, 0),
        ("model: {parameters: 7B}\nresources: {minimum_gpu_memory_gb: 24}", Accelerator.GPU, 1),
    ],
)
def test_a_use_of_a_model_implies_a_gpu_and_leaves_the_number_open(
    text: str, accelerator: Accelerator, count: int
) -> None:
    resources = accepted(PROCESS + text).spec.resources
    assert (resources.accelerator, resources.gpu_count) == (accelerator, count)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANYTHING", "ghp_" + "a1B2" * 9),
        ("ANYTHING", "sk-" + "abcDEF123" * 4),
        ("ANYTHING", "-----BEGIN RSA PRIVATE KEY-----\nabc"),
        ("DB_PASSWORD", "qX7!pLw92zRt"),
        ("API_KEY", "f81d4fae7dec11d0a76500a0c91e6bf6"),
    ],
)
def test_what_looks_like_a_secret_is_warned_of_and_not_repeated(name: str, value: str) -> None:
    outcome = accepted(json.dumps({"runtime": {"type": "process", "command": ["a"]}, "environment": {name: value}}))
    (warning,) = outcome.warnings
    assert (warning.code, warning.field) == ("secret_in_environment", f"environment.{name}")
    assert value not in str(warning)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZER", "bert-base"),
        ("SECRET_NAME", "my-secret"),
        ("PATH", "/usr/bin:/bin"),
        ("API_KEY_FILE", "/run/keys/a-long-file-name-of-a-key"),
        ("KEY", "aaaaaaaaaaaaaaaaaaaaaa"),
        ("MODEL", "sk-small"),
    ],
)
def test_what_does_not_look_like_a_secret_is_not_warned_of(name: str, value: str) -> None:
    assert not looks_secret(name, value)


def test_the_canonical_form_is_short_sorted_and_read_back() -> None:
    spec = accepted(PROCESS + "resources: {cpu_cores: 2.50}\nlabels: {b: '1', a: '2'}").spec
    assert canonical_json(spec) == (
        b'{"labels":[["a","2"],["b","1"]],"resources":{"cpu_cores":"2.5"},"runtime":{"command":["work"],"kind":"process"}}'
    )
    assert spec_from_json(canonical_json(spec)) == spec


def test_a_canonical_form_that_is_none_is_a_fault() -> None:
    with pytest.raises(ValueError, match="runtime"):
        spec_from_json(b"{}")


def test_equal_specs_have_equal_digests_however_they_were_written() -> None:
    one = accepted(PROCESS + "resources: {disk_gb: 1.0, cpu_cores: 2}")
    other = accepted(
        '{"resources": {"cpuCores": "2.0", "diskGb": "1GB"}, "runtime": {"command": ["work"], "type": "process"}}'
    )
    assert spec_digest(one.spec) == spec_digest(other.spec)
    assert one.body_digest == other.body_digest


def test_a_repeated_request_is_the_same_body() -> None:
    text = PROCESS + "constraints: {deadline: +2h}\n"
    first, later = accepted(text), accepted(text + "metadata: {client_request_id: x}", now_ms=NOW_MS + 5_000)
    assert first.spec.constraints.deadline_ms != later.spec.constraints.deadline_ms
    assert first.body_digest == later.body_digest
    assert first.body_digest != accepted(PROCESS + "constraints: {deadline: +3h}\n").body_digest
    assert client_request_id(later.spec) == "x"


def test_the_digest_of_the_simplest_spec_never_changes() -> None:
    """Keys live as long as their workloads: a changed digest would turn repeats into conflicts."""
    spec = Spec(runtime=Runtime(kind=RuntimeKind.PROCESS, command=("true",)))
    assert spec_digest(spec) == "sha256:20dad10e599d00948a3e1d3fe09ba89bc8e74913f3623a949a04c75b30231232"
    assert body_digest(replace(spec, metadata=(("client_request_id", "x"),))) == body_digest(spec)
