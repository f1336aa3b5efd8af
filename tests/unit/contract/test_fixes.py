"""What is told to do must be what helps: the fixes of cases that once got the wrong one."""

import pytest

from placet.contract import limits
from placet.contract.parse import Parsed, parse
from placet.domain import units
from placet.domain.problems import Problem
from placet.runner.launch import Invalid, Limits

PROCESS = "runtime: {type: process, command: [x]}\n"
YAML_COST = PROCESS.replace("{", "{{").replace("}", "}}") + "constraints: {{maximum_estimated_cost: {}}}"
JSON_COST = '{{"runtime": {{"type": "process", "command": ["x"]}}, "constraints": {{"maximum_estimated_cost": {}}}}}'


def only(text: str) -> Problem:
    found = parse(text, now_ms=0)
    assert isinstance(found, tuple)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("size", "fix"),
    [
        (limits.YAML_BYTES_MAX + 1, "pass large data as an input, or write the spec as JSON"),
        (limits.JSON_BYTES_MAX, "pass large data as an input, or write the spec as JSON"),
        (limits.JSON_BYTES_MAX + 1, "pass large data as an input"),
        (50 * 2**20, "pass large data as an input"),
    ],
)
def test_json_is_proposed_only_where_it_would_fit(size: int, fix: str) -> None:
    text = PROCESS + "#"
    assert only(text + "x" * (size - len(text))).fix == fix


@pytest.mark.parametrize(
    ("written", "code", "fix"),
    [
        ("constraints: {maximum_runtime_seconds: 99999999999999999h}", "out_of_range", "write at most 366d"),
        ("constraints: {maximum_runtime_seconds: 9999999999999}", "out_of_range", "write at most 366d"),
        ("constraints: {maximum_runtime_seconds: 367d}", "out_of_range", "write at most 366d"),
        ("constraints: {deadline: +99999999999999999h}", "out_of_range", "write at most 366d"),
        ("constraints: {maximum_estimated_cost: $99999999999999}", "out_of_range", "write at most 10000000"),
        ("resources: {disk_gb: 99999999999999999999GB}", "out_of_range", "write for example 24GB or 2TB"),
        ("resources: {cpu_cores: 99999}", "out_of_range", "write at most 16384"),
        ("constraints: {maximum_runtime_seconds: 9999999999999 parsecs}", "bad_unit", "write for example 90s"),
        (f"labels: {{a: {'x' * 300}}}", "too_large", "keep it to 256 characters at most"),
    ],
)
def test_a_bound_is_told_as_a_bound(written: str, code: str, fix: str) -> None:
    found = only(PROCESS + written)
    assert found.code == code
    assert found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("field", "enough", "too_little", "bound"),
    [
        ("resources.system_memory_gb", "1MiB", "1048575B", "at least 1MiB"),
        ("resources.system_memory_gb", "0.001048576", "0.001048575", "at least 1MiB"),
        ("resources.system_memory_gb", "1MiB", "0", "at least 1MiB"),
        ("resources.disk_gb", "4KiB", "4095B", "at least 4KiB"),
        ("resources.cpu_cores", "0.01", "0.009", "at least 0.01"),
        ("constraints.maximum_runtime_seconds", "1ms", "0.9ms", "at least 1ms"),
        ("constraints.maximum_runtime_seconds", "0.001", "0.000999", "at least 1ms"),
        ("resources.minimum_gpu_memory_gb", "1B", "0", "above zero"),
    ],
)
def test_what_no_provider_can_start_is_refused_by_the_field_s_name(
    field: str, enough: str, too_little: str, bound: str
) -> None:
    part, name = field.split(".")
    text = PROCESS + f"{part}: {{{name}: VALUE}}"
    assert isinstance(parse(text.replace("VALUE", enough), now_ms=0), Parsed)
    found = only(text.replace("VALUE", too_little))
    assert (found.code, found.field) == ("out_of_range", field)
    assert bound in found.why


def test_the_least_that_a_spec_may_ask_for_is_what_the_runner_takes() -> None:
    least = {
        "memory_bytes": units.MEMORY_BYTES_MIN,
        "disk_bytes": units.DISK_BYTES_MIN,
        "cpu_cores": float(units.CORES_MIN),
        "runtime_s": float(units.DURATION_S_MIN),
    }
    Limits(least)
    for name, value in least.items():
        with pytest.raises(Invalid, match=name):
            Limits({name: value - 1 if isinstance(value, int) else value * 0.99})
    for name in ("memory_bytes", "disk_bytes", "log_bytes"):
        Limits({name: units.BYTES_MAX})
        with pytest.raises(Invalid, match=name):
            Limits({name: units.BYTES_MAX + 1})


@pytest.mark.parametrize("number", ["1e-400", "1e-31", "1e-999999999999999999999", "0." + "0" * 60 + "1", "-1E-99"])
@pytest.mark.parametrize("text", [YAML_COST, JSON_COST])
def test_a_number_near_zero_is_not_called_large(text: str, number: str) -> None:
    found = only(text.format(number))
    assert (found.code, found.field) == ("number_too_small", "constraints.maximum_estimated_cost")
    assert "larger number" in found.fix


@pytest.mark.parametrize("number", ["1e400", "1e31", "1e999999999999999999999", "9" * 60])
def test_a_large_number_is_called_large(number: str) -> None:
    assert only(JSON_COST.format(number)).code == "number_too_large"


PYTHON = "runtime: {{type: python, script: a.py, python_version: {}}}\n"


@pytest.mark.parametrize("version", ["2.7", "3.7", "3.7.17", "3.0", "4.0", "3.08", "0.1", "99999.1", "3.8.01"])
def test_a_python_that_no_environment_is_made_with(version: str) -> None:
    found = only(PYTHON.format(f'"{version}"'))
    assert (found.code, found.field) == ("out_of_range", "runtime.python_version")
    assert '"3.8" or a newer one' in found.fix
    assert version in found.what


@pytest.mark.parametrize("version", ["2.7", "3.12", '"3"', '"new"', '""', '"3.12rc1"', '"3.12.1.1"', '">=3.8"', "[3]"])
def test_what_is_no_version_of_python_at_all(version: str) -> None:
    found = only(PYTHON.format(version))
    assert (found.code, found.field) == ("wrong_type" if version == "[3]" else "bad_value", "runtime.python_version")


@pytest.mark.parametrize("version", ["3.8", "3.8.0", "3.10", "3.12.7", "3.100"])
def test_pythons_that_are_accepted(version: str) -> None:
    parsed = parse(PYTHON.format(f'"{version}"'), now_ms=0)
    assert isinstance(parsed, Parsed)
    assert parsed.spec.runtime.python_version == version


def test_a_warning_proposes_only_what_can_be_done_today() -> None:
    parsed = parse(PROCESS + "environment: {API_KEY: q8Zr2Lk0Vw9Xy3Tb7}", now_ms=0)
    assert isinstance(parsed, Parsed)
    assert "from a file on its machine" in parsed.warnings[0].fix
