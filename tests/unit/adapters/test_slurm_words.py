"""Slurm's words, its lines and its refusals, taken from what the commands print."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.providers.slurm import orders
from placet.adapters.providers.slurm.commands import command_environment, refusal
from placet.adapters.providers.slurm.judging import Known, judge
from placet.adapters.providers.slurm.offers import COLUMNS, make_offers, rows
from placet.adapters.providers.slurm.options import GpuKind, Partition, SlurmOptions
from placet.adapters.providers.slurm.site import Answer
from placet.adapters.providers.slurm.words import CAUSES, STATES, Job, account_lines, limit_s, queue_lines
from placet.domain.allocations import Phase
from placet.domain.errors import (
    AuthFailed,
    InvalidRequest,
    NoCapacity,
    OutcomeUnknown,
    ProviderError,
    QuotaExceeded,
    Unavailable,
)
from placet.domain.failures import Cause
from placet.domain.offers import Availability, Offer
from tests.support.local import launch_of, resources, shell

OPTIONS = SlurmOptions(shared=Path("/shared/placet"))
STATUS = {
    "key": "k",
    "incarnation": "a.1.2",
    "observed_ms": 5_000,
    "phase": "running",
    "phases": [],
    "started_ms": 2_000,
    "logs": {},
    "ran": True,
    "evidence": {},
    "cause": None,
}
ENDED = {**STATUS, "phase": "ended", "cause": "exited", "exit_code": 0, "ended_ms": 4_000, "detail": "exited"}
JOB = Job(id="7", name="k", state="RUNNING", submit_ms=1_000, nodes="n1", queued=True)
OVER = replace(JOB, state="COMPLETED", end_ms=6_000, exit_code=0)


def known(**changes: object) -> Known:
    return replace(Known(key="k", provider="slurm", looked_ms=100_000, sent_ms=900), **changes)  # type: ignore[arg-type]  # its fields by name


def test_lines_of_the_queue() -> None:
    text = (
        "1|RUNNING|None|1796135728|1796135728|N/A|n[1-2]|main|law-1|placet:dep\n"
        "2|PENDING|Resources|1796135728|N/A|N/A||main|a|name|with bars\n"
        "garbage\n"
        "3|PENDING|Resources|1796135728|1796139999|N/A||main|law-3|with|bars\n"
    )
    first, second, third = queue_lines(text)
    assert (second.id, second.state, second.name) == ("2", "PENDING", "a")
    assert (first.id, first.state, first.submit_ms, first.nodes, first.comment) == (
        "1",
        "RUNNING",
        1796135728000,
        "n[1-2]",
        "placet:dep",
    )
    assert (third.reason, third.start_ms, third.began, third.comment) == (
        "Resources",
        1796139999000,
        False,
        "with|bars",
    )


def test_lines_of_the_accounts() -> None:
    text = (
        "1|law-1|FAILED|7:0|None|1796135728|1796135728|1796135730|n1|main\n"
        "2|law-2|CANCELLED by 1000|0:0|None|1796135728|Unknown|1796135730|None assigned|main\n"
        "3.batch|batch|FAILED|7:0|||||n1|\n"
    )
    first, second = account_lines(text)
    assert (first.exit_code, first.signal, first.over, first.began) == (7, None, True, True)
    assert (second.state, second.began, second.start_ms) == ("CANCELLED", False, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("infinite", None),
        ("UNLIMITED", None),
        ("10", 600.0),
        ("1:30", 90.0),
        ("1:00:00", 3600.0),
        ("2-00:00:00", 172_800.0),
        ("1-12", 129_600.0),
        ("n/a", None),
    ],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert limit_s(text) == seconds


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", NoCapacity),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", OutcomeUnknown),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            Unavailable,
        ),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", AuthFailed),
        ("sbatch: error: Batch job submission failed: Job violates accounting/QOS policy", QuotaExceeded),
        ("sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification", InvalidRequest),
        ("sbatch: error: something that nobody has seen before", OutcomeUnknown),
        ("", OutcomeUnknown),
    ],
)
def test_a_refusal_has_its_kind(said: str, kind: type[ProviderError]) -> None:
    error = refusal(Answer(code=1, out="", err=said), "slurm")
    assert type(error) is kind
    assert error.provider == "slurm"


def test_every_end_that_slurm_knows_is_an_end_and_only_proof_is_a_cause() -> None:
    ends = {state for state, phase in STATES.items() if phase is Phase.ENDED}
    assert set(CAUSES) < ends
    assert "COMPLETED" not in CAUSES
    assert "FAILED" not in CAUSES


def test_success_needs_the_runners_word() -> None:
    seen = judge(known(job=OVER))
    assert seen.phase is Phase.ENDED
    assert not seen.computed
    assert seen.exit_code is None
    assert seen.cause is Cause.PROVIDER_ERROR
    seen = judge(known(job=OVER, status=ENDED))
    assert seen.computed
    assert seen.exit_code == 0


def test_a_success_needs_no_word_of_the_cluster() -> None:
    assert judge(known(status=ENDED)).computed
    assert judge(known(status=ENDED, job=JOB)).computed


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("OUT_OF_MEMORY", Cause.OUT_OF_MEMORY),
        ("TIMEOUT", Cause.TIMEOUT),
        ("PREEMPTED", Cause.PREEMPTED),
        ("NODE_FAIL", Cause.LOST),
        ("BOOT_FAIL", Cause.LOST),
        ("CANCELLED", Cause.STOPPED),
        ("DEADLINE", Cause.START_TIMEOUT),
    ],
)
@pytest.mark.parametrize(
    "status",
    [None, STATUS, {**ENDED, "cause": "host", "exit_code": 143}, {**ENDED, "cause": "killed", "exit_code": None}],
    ids=["silent", "cut-off", "told-to-end", "killed"],
)
def test_what_the_cluster_did_is_the_clusters_word(state: str, cause: Cause, status: dict[str, object] | None) -> None:
    seen = judge(known(job=replace(OVER, state=state), status=status))
    assert (seen.phase, seen.cause, seen.computed, seen.exit_code) == (Phase.ENDED, cause, False, None)


@pytest.mark.parametrize("cause", ["killed", "host"])
def test_an_end_from_outside_waits_for_the_clusters_word(cause: str) -> None:
    status = {**ENDED, "cause": cause, "exit_code": None, "signal": 9}
    seen = judge(known(job=replace(JOB, state="COMPLETING"), status=status))
    assert (seen.phase, seen.cause) == (Phase.STOPPING, None)


def test_an_exit_code_of_the_programs_own_is_final_whatever_the_cluster_says() -> None:
    status = {**ENDED, "exit_code": 3}
    for job in (None, JOB, replace(OVER, state="FAILED", exit_code=3), replace(OVER, state="OUT_OF_MEMORY")):
        seen = judge(known(job=job, status=status))
        assert (seen.cause, seen.exit_code) == (Cause.EXIT_CODE, 3)


def test_the_last_word_may_be_on_its_way() -> None:
    job = replace(OVER, state="FAILED", exit_code=1, end_ms=99_000, queued=False)
    assert judge(known(job=replace(job, queued=True), status=STATUS)).phase is Phase.STOPPING, "the accounts are late"
    assert judge(known(job=replace(job, queued=True), status=STATUS, accounting=False)).phase is Phase.ENDED
    assert judge(known(job=job, status=STATUS, settle_ms=15_000)).phase is Phase.STOPPING
    assert judge(known(job=job, status=STATUS, settle_ms=500)).phase is Phase.ENDED


def test_computed_and_not_collected() -> None:
    status = {**ENDED, "phase": "collecting", "exit_code": 0}
    seen = judge(known(job=replace(OVER, state="NODE_FAIL"), status=status))
    assert seen.computed
    assert seen.collected
    assert "NODE_FAIL" in seen.problem


def test_absence_is_unknown_at_first_and_then_gone() -> None:
    assert judge(known(sent_ms=99_000, visible_ms=60_000)).phase is Phase.UNKNOWN
    assert judge(known(sent_ms=1_000, visible_ms=60_000)).phase is Phase.GONE
    assert judge(known(folder=False)).phase is Phase.GONE
    assert judge(known(folder=False, job=OVER)).phase is Phase.GONE
    assert judge(known(folder=False, job=JOB)).phase is Phase.RUNNING


def test_a_job_that_the_cluster_gave_up_was_stopped_by_nobody() -> None:
    job = replace(OVER, state="CANCELLED", reason="ReqNodeNotAvail")
    assert judge(known(job=job)).cause is Cause.PROVIDER_ERROR
    assert judge(known(job=job, stopped=True)).cause is Cause.STOPPED


def test_a_state_that_nobody_knows_is_unknown() -> None:
    seen = judge(known(job=replace(JOB, state="BRAND_NEW")))
    assert (seen.phase, seen.native_state) == (Phase.UNKNOWN, "BRAND_NEW")


def test_a_second_beginning_of_the_same_runs_nothing_and_the_first_was_lost() -> None:
    job = replace(OVER, state="FAILED", exit_code=94)
    assert judge(known(job=job, status=STATUS)).cause is Cause.LOST


def line_of(*words: str) -> str:
    return "".join(word.ljust(width) for word, (_, width) in zip(words, COLUMNS, strict=True))


SINFO = "\n".join(
    [
        line_of(
            "main*", "infinite", "idle", "2", "64", "256000", "gpu:a100:4(S:0-1)", "gpu:a100:0(IDX:N/A)", "0/128/0/128"
        ),
        line_of("main*", "infinite", "mixed", "1", "64", "512000", "gpu:odd:2", "gpu:odd:2(IDX:0-1)", "60/4/0/64"),
        line_of("main*", "infinite", "down*", "1", "999", "999000", "gpu:a100:99", "gpu:a100:0", "0/999/0/999"),
        line_of("short", "1:00:00", "allocated", "1", "64+", "256000", "(null)", "gpu:0", "64/0/0/64"),
        "garbage",
    ]
)


def test_offers_are_made_of_what_the_cluster_has() -> None:
    options = replace(
        OPTIONS,
        gpus=(GpuKind(type="odd", model="H100-80GB", memory_bytes=80 * 10**9),),
        partitions=(Partition(name="main", price_usd_per_hour=Decimal("1.5")), Partition(name="short")),
    )
    found = rows(SINFO, options)
    offers = make_offers(
        found, options, region="here", runtimes=("process",), waits_s={"slurm-short-cpu": 1800.0}, observed_ms=1
    )
    shown = {offer.id: offer for offer in offers}
    assert set(shown) == {"slurm-main-cpu", "slurm-main-gpu-a100", "slurm-main-gpu-odd", "slurm-short-cpu"}
    assert (shown["slurm-main-cpu"].cpu_cores, shown["slurm-main-cpu"].memory_bytes) == (64, 512000 * 1024 * 1024)
    a100 = shown["slurm-main-gpu-a100"].gpu
    assert a100 is not None
    assert (a100.count, a100.memory_bytes) == (4, 40 * 10**9)
    odd = shown["slurm-main-gpu-odd"]
    assert odd.gpu is not None
    assert odd.gpu.model == "H100-80GB"
    assert odd.availability is Availability.UNKNOWN, "all of them are in use, and it queues"
    assert shown["slurm-main-gpu-a100"].availability is Availability.FREE
    assert shown["slurm-short-cpu"].startup_s == 1800
    assert shown["slurm-main-cpu"].price_usd_per_hour == Decimal("1.5")
    assert {row.partition.name: row.limit_s for row in found} == {"main": None, "short": 3600.0}


def test_a_command_has_one_word_for_each_wish_and_none_of_them_is_an_option() -> None:
    spec = shell("true", resources=resources(cpu_cores=Decimal("1.5"), memory_bytes=10**9, gpu_count=2))
    launch = launch_of(spec, "a-key", runtime_s=100)
    launch = replace(launch, offer=Offer(id="x", provider="slurm"), tag=replace(launch.tag, deployment="a b;$(c)"))
    row = next(row for row in rows(SINFO, OPTIONS) if row.gpu_type == "a100")
    line = orders.command(launch, OPTIONS, row, Path("/shared/%j odd/attempts/a-key"))
    assert line[0] == "sbatch"
    assert all(word.startswith("--") for word in line[1:])
    assert "--comment=placet:a_b___c_" in line
    assert "--output=/shared/%%j odd/attempts/a-key/job.log" in line
    assert {"--cpus-per-task=2", "--gres=gpu:a100:2", "--time=7", "--no-requeue"} <= set(line)
    assert "--mem=1018M" in line


@pytest.mark.parametrize("word", ["-x", "--wrap=rm", "a b", "a;b", "$(x)", "a\nb", ""])
def test_a_name_that_is_more_than_a_name_is_refused(word: str) -> None:
    with pytest.raises(InvalidRequest):
        orders.plain(word, "the partition", "slurm")


def test_the_script_quotes_its_words() -> None:
    text = orders.script(
        replace(OPTIONS, prologue=("module load x",), python="/opt/my python"),
        Path("/s h/bootstrap.sh"),
        Path("/s h/r.pyz"),
        Path("/s h/a'b"),
    ).decode()
    assert text.splitlines() == [
        "#!/bin/sh",
        "module load x",
        "PLACET_PYTHON='/opt/my python'; export PLACET_PYTHON",
        """exec /bin/sh '/s h/bootstrap.sh' '/s h/r.pyz' '/s h/a'"'"'b'""",
    ]


def test_an_order_holds_no_secret() -> None:
    launch = replace(launch_of(shell("true"), "k"), secrets=(("TOKEN", "hush-hush"),))
    order = orders.order_document(launch, OPTIONS, orders.Places(shared=OPTIONS.shared), 1.0)
    assert b"hush-hush" not in order
    assert b"hush-hush" not in orders.plain_order(order)
    assert b"hush-hush" in orders.secrets_document(launch)
    assert b"hush-hush" in orders.plain_secrets(launch)


def test_the_commands_hear_of_nothing_that_happens_to_be_here() -> None:
    own = {"PATH": "/bin", "HOME": "/home/me", "AWS_SECRET_ACCESS_KEY": "hush", "SLURM_CONF": "/etc/slurm.conf"}
    assert command_environment(own, {}) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "SLURM_CONF": "/etc/slurm.conf",
        "LC_ALL": "C",
        "SLURM_TIME_FORMAT": "%s",
    }
