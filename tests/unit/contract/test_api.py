"""The REST shapes fit what the stages make, and older clients can read newer servers."""

import json
from decimal import Decimal

from placet.contract.api import ProblemDetails, ResultView, WorkloadPage
from placet.domain.failures import Cause, Failure
from placet.domain.records import Artifact, Attempt, PlacementNote, Workload
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.domain.states import AttemptState, DeliveryState, WorkloadState
from placet.stages.result import conclude

SPEC = Spec(name="n", runtime=Runtime(kind=RuntimeKind.PROCESS, command=("true",)))
NOTE = PlacementNote(
    offer_id="o",
    provider="p",
    region="",
    price_usd_per_hour=Decimal("0.5"),
    expected_cost_usd=Decimal(1),
    dropped=(("gpu", 2),),
)


def workload(state: WorkloadState, failure: Failure | None) -> Workload:
    return Workload(
        id="wl_0", tenant="t", spec=SPEC, spec_digest="sha256:0", created_ms=0, state=state, epoch=1,
        delivery=DeliveryState.COMPLETE, failure=failure, finished_ms=10,
    )  # fmt: skip


def attempt(failure: Failure | None) -> Attempt:
    return Attempt(
        workload_id="wl_0", epoch=1, state=AttemptState.COLLECTED, key="k", nonce="n", provider="p", placement=NOTE,
        started_ms=1, exited_ms=5, exit_code=0, computed=failure is None, failure=failure,
    )  # fmt: skip


def test_a_result_is_read_without_loss_whatever_the_ending() -> None:
    failure = Failure(cause=Cause.EXIT_CODE, message="it failed", exit_code=3)
    artifact = Artifact(workload_id="wl_0", epoch=1, name="a", path="a", size_bytes=1, sha256="0", location="x")
    for text in (
        conclude(workload(WorkloadState.SUCCEEDED, None), [attempt(None)], [artifact]),
        conclude(workload(WorkloadState.FAILED, failure), [attempt(failure)], []),
        conclude(workload(WorkloadState.CANCELLED, None), [], []),
    ):
        told = json.loads(text)
        view = ResultView.model_validate(told)
        assert told.keys() == ResultView.model_fields.keys()
        assert view.state == told["state"]
        assert [held.model_dump() for held in view.attempts] == told["attempts"]


def test_unknown_fields_of_a_newer_server_are_ignored() -> None:
    told = {"type": "t", "title": "T", "status": 400, "code": "bad_request", "invented": 1}
    assert ProblemDetails.model_validate(told).code == "bad_request"


def test_a_page_says_where_the_next_one_begins() -> None:
    page = WorkloadPage.model_validate({"items": [], "next": "c"})
    assert page.model_dump() == {"items": [], "next": "c"}
