"""What clusters and engines say, and what may stand in their answers because others can write there."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from placet.adapters.providers.container import names
from placet.adapters.providers.container.offers import Capacity, left
from placet.adapters.providers.container.translate import Seen, instant_ms, observed, tells, words
from placet.adapters.providers.slurm.offers import COLUMNS, rows
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.adapters.providers.slurm.orders import read_document
from placet.adapters.providers.slurm.words import account_lines, limit_s, queue_lines
from placet.domain.allocations import Phase
from placet.domain.failures import Cause
from tests.support.fuzzing import fuzz, soon

NOW_MS = 1_800_000_000_000
LATEST_MS = 10**19
OPTIONS = SlurmOptions(shared=Path("/shared"))
told = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "7", "²", "9" * 5_000, "-1", "RUNNING", "CANCELLED by 7", "0:9", "²:²", "N/A", "None assigned"]
    ),
    st.sampled_from(["running", "exited", "0001-01-01T00:00:00Z", "2026-13-45T99:99:99Z", "9999-12-31T23:59:59-23:59"]),
)


def bars(count: int) -> st.SearchStrategy[str]:
    return st.lists(told, min_size=count - 1, max_size=count + 1).map("|".join)


lines = st.one_of(st.text(max_size=60), st.lists(bars(10), max_size=3).map("\n".join))


@fuzz
@given(lines)
@example("²|RUNNING|x|1|1|1|n|p|j|c")
@example("7|RUNNING|x|²|1|1|n|p|j|c")
@example("7|FAILED|x|1|1|1|n|p|j|c\x0b8|RUNNING|x|1|1|1|n|p|forged|c")
@example("7|a|FAILED|²:²|x|1|1|1|n|p")
@example("7|a|FAILED|0:" + "9" * 5_000 + "|x|" + "9" * 5_000 + "|1|1|n|p")
def test_every_line_of_a_queue_is_a_job_or_nothing(text: str) -> None:
    with soon():
        found = [*queue_lines(text), *account_lines(text)]
    assert len(found) <= 2 * (text.count("\n") + 1)
    for job in found:
        assert int(job.id) >= 0
        assert 0 <= job.submit_ms < LATEST_MS


@fuzz
@given(st.one_of(st.text(max_size=20), st.lists(st.sampled_from(["1", ":", "-", "²", "99"]), max_size=9).map("".join)))
@example("9" * 5_000)
@example("٣:٣")
def test_a_limit_of_time_is_a_number_or_none(text: str) -> None:
    found = limit_s(text)
    assert found is None or found >= 0


widths = [width for _, width in COLUMNS]
node = st.tuples(*[st.one_of(told, st.sampled_from(["idle", "4", "gpu:a100:²,gpu:2", "0/4/0/4"])) for _ in widths]).map(
    lambda cells: "".join(cell[:width].ljust(width) for cell, width in zip(cells, widths, strict=True))
)


@fuzz
@given(st.one_of(st.text(max_size=600), st.lists(node, max_size=3).map("\n".join)))
def test_every_line_of_a_partition_is_nodes_or_nothing(text: str) -> None:
    with soon():
        for row in rows(text, OPTIONS):
            assert row.cpus >= 0
            assert row.memory_bytes >= 0


@fuzz
@given(st.binary(max_size=60))
@example(b"[" * 200_000)
@example(b'{"a":' * 100_000)
@example(b"\xff")
def test_a_document_of_the_shared_folder_is_one_or_nothing(data: bytes) -> None:
    document = read_document(data)
    assert document is None or isinstance(document, dict)


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), told)
answers: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(told, inner, max_size=3), max_leaves=6
)
states = st.fixed_dictionaries(
    {},
    optional={
        "Status": st.one_of(st.sampled_from(["running", "exited", "dead", "created", "paused"]), answers),
        "ExitCode": st.one_of(st.integers(-5, 300), answers),
        "Error": answers,
        "OOMKilled": answers,
        "StartedAt": answers,
        "FinishedAt": answers,
    },
)
containers = st.fixed_dictionaries({}, optional={"Id": answers, "State": st.one_of(states, answers)})
labels = st.fixed_dictionaries(
    {}, optional={each: told for each in (names.CREATED, names.EPOCH, names.CAUSE, names.SAYS, names.NONCE)}
)
marks = st.dictionaries(st.sampled_from(list(names.Mark)), labels, max_size=2)
scripts = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from([b"code 0", b"oom 1", b"peak \xc2\xb2", b"end 1", b"late 1", b"cpu_ns 7", b"a b"])).map(
        b"\n".join
    ),
    st.just("code ٣\nend 1".encode()),
)


@fuzz
@given(containers, labels, marks, scripts, st.integers(-(10**6), 10**6))
@example({"State": "running"}, {}, {}, b"", 0)
@example({"State": {"Status": "exited"}}, {}, {}, b"", 0)
@example({"State": {"Status": "exited", "ExitCode": "0x7"}}, {}, {}, b"", 0)
@example({"State": {"Status": "running", "StartedAt": "2026-13-45T99:99:99Z"}}, {}, {}, b"", 0)
@example({"State": {"Status": "running", "StartedAt": "9999-12-31T23:59:59-23:59"}}, {}, {}, b"", 0)
@example({"State": {"Status": "exited", "ExitCode": 0}}, {names.CREATED: "²"}, {}, b"peak \xc2\xb2\nend 1", 0)
def test_every_answer_about_a_container_is_an_observation(
    container: dict[str, Any],
    attempt: dict[str, str],
    marked: dict[names.Mark, dict[str, str]],
    script: bytes,
    offset_ms: int,
) -> None:
    known = names.Known(attempt={names.KEY: "k", **attempt}, marks=marked)
    seen = Seen(key="k", known=known, container=container, written=words(script), offset_ms=offset_ms)
    with soon():
        found = observed(seen, "engine", NOW_MS)
        tells(container)
    assert (found.created_ms is None) is (found.phase is Phase.GONE)
    if found.phase is Phase.ENDED:
        assert found.computed is (found.cause is None)
        # Success is told by somebody: an answer without an exit code is none.
        state = container.get("State")
        code = state.get("ExitCode") if isinstance(state, dict) else None
        assert not found.computed or seen.written or (code == 0 or code == "0")
        if code is None and not seen.written and not marked:
            assert found.cause in (Cause.UNRESOLVED, Cause.START_FAILED)
    json.dumps([found.message, found.native_state, found.evidence])
    names.handle(known.attempt or {}, "engine", "here")
    names.request(known.attempt or {})


@fuzz
@given(st.one_of(told, answers), st.integers(-(10**6), 10**6))
@example("٢٠٢٦-01-01T00:00:00Z", 0)
@example("2026-01-01T00:00:00." + "9" * 5_000 + "Z", 0)
@example("2026-01-01T00:00:00+99:99", 0)
def test_a_time_of_an_engine_is_one_or_none(text: object, offset_ms: int) -> None:
    with soon():
        found = instant_ms(text, offset_ms)
    assert found is None or abs(found) < LATEST_MS


@fuzz
@given(
    st.lists(st.fixed_dictionaries({}, optional={names.CPU: told, names.MEMORY: told, names.GPUS: told}), max_size=3)
)
@example([{names.CPU: "NaN"}])
@example([{names.MEMORY: "1e999999999"}])
@example([{names.MEMORY: "Infinity"}, {names.CPU: "-1e99"}])
def test_what_is_left_of_a_machine_is_never_less_than_nothing(living: list[dict[str, str]]) -> None:
    machine = Capacity(slots=4, cpu_cores=Decimal(8), memory_bytes=10**10, gpus=())
    with soon():
        free = left(machine, living)
    assert free.slots >= 0
    assert free.cpu_cores >= 0
    assert free.memory_bytes >= 0
