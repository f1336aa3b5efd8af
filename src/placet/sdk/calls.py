"""Every request a client can make and how its reply is read. No I/O: both drivers use the same calls."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from placet.contract import api
from placet.contract.budgets import BudgetList, BudgetView, DroppedBudgetView
from placet.contract.explanations import ExplanationView
from placet.contract.forecasts import CalibrationView
from placet.contract.hooks import DispatchPage, DispatchView, HookPage, HookView, KeyedHookView, ReplayView
from placet.contract.ledgers import LedgerView
from placet.contract.logs import LogPieceView
from placet.contract.orphans import OrphanPage, OrphanView
from placet.contract.providers import ProviderList, ProviderMessages
from placet.contract.resolving import DoubtView
from placet.contract.secrets import RemovedSecretView, SecretPage, SecretView
from placet.contract.tokens import IssuedTokenView, TokenPage, TokenView
from placet.sdk.specs import Document
from placet.sdk.sse import ServerEvent
from placet.sdk.wire import Call, Reply, Request

Model = TypeVar("Model", bound=BaseModel)

BASE = "/v1/workloads"
HOOKS = "/v1/webhooks"
SECRETS = "/v1/secrets"
JSON_BODY = (("content-type", "application/json"),)
RAW_BYTES = (("accept", "application/octet-stream"),)


def submit(document: Document, key: str, quote: str | None = None) -> Call[api.WorkloadView]:
    """Submit; the key makes it safe to repeat."""
    return Call(request=replace(_post(BASE, document, key), query=_quoted(quote)), read=_as(api.WorkloadView))


def dry_run(document: Document, quote: str | None = None) -> Call[api.DryRunView]:
    """Ask whether it would be accepted."""
    query = (("dry_run", "true"), *_quoted(quote))
    request = Request(method="POST", path=BASE, query=query, headers=JSON_BODY, body=_encoded(document))
    return Call(request=request, read=_as(api.DryRunView))


def estimate(document: Document) -> Call[api.EstimateView]:
    """What would happen, and what it may cost."""
    request = Request(method="POST", path="/v1/estimate", headers=JSON_BODY, body=_encoded(document))
    return Call(request=request, read=_as(api.EstimateView))


def size(document: Document) -> Call[api.SizeView]:
    """How much GPU memory a model needs."""
    request = Request(method="POST", path="/v1/size", headers=JSON_BODY, body=_encoded(document))
    return Call(request=request, read=_as(api.SizeView))


def get(workload_id: str) -> Call[api.WorkloadView]:
    """One workload."""
    return Call(request=_one(workload_id), read=_as(api.WorkloadView))


def listing(
    *,
    states: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[api.WorkloadPage]:
    """A page of workloads, newest first."""
    query = [("limit", str(limit)), *(("state", state) for state in states)]
    query += [("label", f"{key}={value}") for key, value in (labels or {}).items()]
    query += [(field, value) for field, value in (("name", name), ("cursor", cursor)) if value is not None]
    return Call(request=Request(method="GET", path=BASE, query=tuple(query)), read=_as(api.WorkloadPage))


def attempts(workload_id: str) -> Call[api.AttemptList]:
    """All attempts."""
    return Call(request=_one(workload_id, "/attempts"), read=_as(api.AttemptList))


def account(workload_id: str) -> Call[api.AccountView]:
    """The nine answers."""
    return Call(request=_one(workload_id, "/account"), read=_as(api.AccountView))


def explanation(workload_id: str, replay: bool = False) -> Call[ExplanationView]:
    """Why attempts run where they run."""
    query = (("replay", "true"),) if replay else ()
    return Call(request=_one(workload_id, "/explanation", query), read=_as(ExplanationView))


def result(workload_id: str) -> Call[api.ResultView]:
    """The final document."""
    return Call(request=_one(workload_id, "/result"), read=_as(api.ResultView))


def result_text(workload_id: str) -> Call[str]:
    """The final document exactly as it is kept."""
    return Call(request=_one(workload_id, "/result"), read=lambda reply: reply.body.decode())


def cancel(workload_id: str) -> Call[api.CancelView]:
    """Ask for an end."""
    request = Request(method="POST", path=f"{_path(workload_id)}/cancel")
    return Call(request=request, read=_as(api.CancelView))


def retry(workload_id: str, key: str) -> Call[api.WorkloadView]:
    """Submit an ended workload again."""
    request = Request(method="POST", path=f"{_path(workload_id)}/retry", headers=(("idempotency-key", key),))
    return Call(request=request, read=_as(api.WorkloadView))


def events(workload_id: str, after: int = 0, limit: int = 200) -> Call[api.EventPage]:
    """A page of events."""
    request = _one(workload_id, "/events", (("after", str(after)), ("limit", str(limit))))
    return Call(request=request, read=_as(api.EventPage))


def event_stream(workload_id: str, after: int = 0) -> Request:
    """Events as they come."""
    return _one(workload_id, "/events", (("after", str(after)),))


def event(told: ServerEvent) -> api.EventView:
    """One event of that stream."""
    return api.EventView.model_validate_json(told.data)


def log_page(
    workload_id: str, *, stream: str, epoch: int | None = None, offset: int = 0, limit: int = 1024 * 1024
) -> Call[LogPieceView]:
    """Bytes of a log that are there now."""
    query = [("stream", stream), ("offset", str(offset)), ("limit", str(limit)), *_epoch(epoch)]
    return Call(request=_one(workload_id, "/logs", tuple(query)), read=_as(LogPieceView))


def log_stream(workload_id: str, *, stream: str = "all", epoch: int | None = None, offset: int = 0) -> Request:
    """Bytes of a log as they come, to its seal."""
    return _one(workload_id, "/logs", (("stream", stream), ("offset", str(offset)), *_epoch(epoch)))


def log_piece(told: ServerEvent) -> LogPieceView:
    """One piece of that stream."""
    return LogPieceView.model_validate_json(told.data)


def artifacts(workload_id: str) -> Call[api.ArtifactPage]:
    """The delivered outputs."""
    return Call(request=_one(workload_id, "/artifacts"), read=_as(api.ArtifactPage))


def artifact_bytes(workload_id: str, path: str, epoch: int | None = None, offset: int = 0) -> Request:
    """The bytes of one output, from an offset."""
    ranged = (("range", f"bytes={offset}-"),) if offset else ()
    return Request(
        method="GET",
        path=f"{_path(workload_id)}/artifacts/{quote(path)}",
        query=tuple(_epoch(epoch)),
        headers=(*RAW_BYTES, *ranged),
    )


def artifact_link(workload_id: str, artifact: api.ArtifactView) -> Call[str | None]:
    """The address at the object store from which one output can be had for a while."""
    request = Request(
        method="GET",
        path=f"{_path(workload_id)}/artifacts/{quote(artifact.path)}",
        query=(*_epoch(artifact.epoch), ("redirect", "true")),
        # Where there is no such address the answer is the output itself, of which one byte is enough.
        headers=(*RAW_BYTES, *((("range", "bytes=0-0"),) if artifact.size_bytes else ())),
    )
    return Call(request=request, read=lambda reply: reply.headers.get("location"))


def offers(connected: bool | None = None, limit: int = 1000) -> Call[api.OfferPage]:
    """What there is to run on, and where that is known from."""
    query = [("limit", str(limit))]
    query += [] if connected is None else [("connected", str(connected).lower())]
    return Call(request=Request(method="GET", path="/v1/offers", query=tuple(query)), read=_as(api.OfferPage))


def quarantined(limit: int = 1000) -> Call[api.QuarantinePage]:
    """What price lists say and was not believed."""
    request = Request(method="GET", path="/v1/offers/quarantined", query=(("limit", str(limit)),))
    return Call(request=request, read=_as(api.QuarantinePage))


def match(document: Document, drops: int = 0) -> Call[api.MatchView]:
    """What becomes of every offer for a spec."""
    request = Request(
        method="POST",
        path="/v1/offers/match",
        query=(("drops", str(drops)),),
        headers=JSON_BODY,
        body=_encoded(document),
    )
    return Call(request=request, read=_as(api.MatchView))


def provider_messages() -> Call[ProviderMessages]:
    """What providers said that no table knows."""
    return Call(request=Request(method="GET", path="/v1/providers/messages"), read=_as(ProviderMessages))


def providers() -> Call[ProviderList]:
    """The providers of the server."""
    return Call(request=Request(method="GET", path="/v1/providers"), read=_as(ProviderList))


def calibration(limit: int = 1000, points: bool = False) -> Call[CalibrationView]:
    """Forecasts held against what became of them."""
    query = (("limit", str(limit)), ("points", str(points).lower()))
    return Call(request=Request(method="GET", path="/v1/calibration", query=query), read=_as(CalibrationView))


def ledger(workload_id: str | None, limit: int = 1000) -> Call[LedgerView]:
    """Where the money of one workload, or of so many latest ones, went."""
    if workload_id is not None:
        return Call(request=_one(workload_id, "/ledger"), read=_as(LedgerView))
    request = Request(method="GET", path="/v1/ledger", query=(("limit", str(limit)),))
    return Call(request=request, read=_as(LedgerView))


def redeliver(workload_id: str) -> Call[api.WorkloadView]:
    """Deliver what was computed and not delivered."""
    return Call(request=Request(method="POST", path=f"{_path(workload_id)}/redeliver"), read=_as(api.WorkloadView))


def doubt(workload_id: str) -> Call[DoubtView]:
    """Is it unclear whether the current attempt runs?"""
    return Call(request=_one(workload_id, "/doubt"), read=_as(DoubtView))


def go_on(workload_id: str) -> Call[DoubtView]:
    """Go on without the attempt that is in doubt."""
    return Call(request=Request(method="POST", path=f"{_path(workload_id)}/go-on"), read=_as(DoubtView))


def orphans(closed: bool = False) -> Call[OrphanPage]:
    """Allocations that no attempt stands for."""
    query = (("closed", "true"),) if closed else ()
    return Call(request=Request(method="GET", path="/v1/orphans", query=query), read=_as(OrphanPage))


def delete_orphan(orphan_id: str) -> Call[OrphanView]:
    """Ask for its deletion."""
    request = Request(method="POST", path=f"/v1/orphans/{quote(orphan_id, safe='')}/delete")
    return Call(request=request, read=_as(OrphanView))


def webhooks() -> Call[HookPage]:
    """All webhooks of the tenant, without their keys."""
    return Call(request=Request(method="GET", path=HOOKS), read=_as(HookPage))


def create_webhook(url: str, states: Sequence[str] = ()) -> Call[KeyedHookView]:
    """Make one; its signing key is in the reply."""
    body = _encoded({"url": url, "states": list(states)})
    request = Request(method="POST", path=HOOKS, headers=JSON_BODY, body=body, idempotent=False)
    return Call(request=request, read=_as(KeyedHookView))


def remove_webhook(webhook_id: str) -> Call[HookView]:
    """Forget it and its messages."""
    return Call(request=Request(method="DELETE", path=_hook(webhook_id)), read=_as(HookView))


def rotate_webhook(webhook_id: str) -> Call[KeyedHookView]:
    """A new signing key."""
    request = Request(method="POST", path=_hook(webhook_id, "/rotate"), idempotent=False)
    return Call(request=request, read=_as(KeyedHookView))


def pause_webhook(webhook_id: str) -> Call[HookView]:
    """Send nothing more to it for now."""
    return Call(request=Request(method="POST", path=_hook(webhook_id, "/pause")), read=_as(HookView))


def resume_webhook(webhook_id: str) -> Call[HookView]:
    """Send what waits."""
    return Call(request=Request(method="POST", path=_hook(webhook_id, "/resume")), read=_as(HookView))


def test_webhook(webhook_id: str) -> Call[DispatchView]:
    """Send a message that tells of nothing."""
    request = Request(method="POST", path=_hook(webhook_id, "/test"), idempotent=False)
    return Call(request=request, read=_as(DispatchView))


def webhook_messages(webhook_id: str, state: str | None = None, limit: int = 100) -> Call[DispatchPage]:
    """Its messages, the newest first."""
    query = (("limit", str(limit)), *((("state", state),) if state else ()))
    return Call(request=Request(method="GET", path=_hook(webhook_id, "/messages"), query=query), read=_as(DispatchPage))


def resend_message(webhook_id: str, message_id: str) -> Call[DispatchView]:
    """Send one message again, under its old id."""
    path = _hook(webhook_id, f"/messages/{quote(message_id, safe='')}/resend")
    return Call(request=Request(method="POST", path=path, idempotent=False), read=_as(DispatchView))


def replay_webhook(webhook_id: str, since_s: int = 3600) -> Call[ReplayView]:
    """Send again what it was told in the last so many seconds."""
    query = (("since_s", str(since_s)),)
    request = Request(method="POST", path=_hook(webhook_id, "/replay"), query=query, idempotent=False)
    return Call(request=request, read=_as(ReplayView))


def _hook(webhook_id: str, below: str = "") -> str:
    return f"{HOOKS}/{quote(webhook_id, safe='')}{below}"


def secrets() -> Call[SecretPage]:
    """All secrets of the tenant, without their values."""
    return Call(request=Request(method="GET", path=SECRETS), read=_as(SecretPage))


def set_secret(name: str, value: str) -> Call[SecretView]:
    """Set a secret; sent twice it is set twice, to the same."""
    body = _encoded({"value": value})
    request = Request(method="PUT", path=_secret(name), headers=JSON_BODY, body=body)
    return Call(request=request, read=_as(SecretView))


def remove_secret(name: str) -> Call[RemovedSecretView]:
    """Forget it and all its versions."""
    return Call(request=Request(method="DELETE", path=_secret(name)), read=_as(RemovedSecretView))


def _secret(name: str) -> str:
    return f"{SECRETS}/{quote(name, safe='')}"


def health() -> Call[api.HealthView]:
    """Is the server alive, and of which version?"""
    return Call(request=Request(method="GET", path="/v1/health"), read=_as(api.HealthView))


def tokens() -> Call[TokenPage]:
    """All tokens, without their secrets."""
    return Call(request=Request(method="GET", path="/v1/tokens"), read=_as(TokenPage))


def create_token(
    name: str,
    scopes: Sequence[str],
    expires_in_s: int | None = None,
    *,
    budget_usd: Decimal | None = None,
    month_budget_usd: Decimal | None = None,
) -> Call[IssuedTokenView]:
    """Make a token; its secret is in the reply and nowhere else."""
    wanted: Document = {"name": name, "scopes": list(scopes)}
    wanted |= _amounts(budget_usd=budget_usd, month_budget_usd=month_budget_usd)
    if expires_in_s is not None:
        wanted["expires_in_s"] = expires_in_s
    request = Request(method="POST", path="/v1/tokens", headers=JSON_BODY, body=_encoded(wanted), idempotent=False)
    return Call(request=request, read=_as(IssuedTokenView))


def budgets() -> Call[BudgetList]:
    """Budgets and how they stand."""
    return Call(request=Request(method="GET", path="/v1/budgets"), read=_as(BudgetList))


def set_budget(kind: str, holder: str, total_usd: Decimal | None, month_usd: Decimal | None) -> Call[BudgetView]:
    """Set the budget of a tenant or a token."""
    body = _encoded(_amounts(total_usd=total_usd, month_usd=month_usd))
    request = Request(method="PUT", path=_budget(kind, holder), headers=JSON_BODY, body=body)
    return Call(request=request, read=_as(BudgetView))


def drop_budget(kind: str, holder: str) -> Call[DroppedBudgetView]:
    """Take a budget away."""
    return Call(request=Request(method="DELETE", path=_budget(kind, holder)), read=_as(DroppedBudgetView))


def _budget(kind: str, holder: str) -> str:
    return f"/v1/budgets/{quote(kind, safe='')}/{quote(holder, safe='')}"


def _amounts(**given: Decimal | None) -> Document:
    """Amounts that are stated, as exact text."""
    return {name: f"{amount:f}" for name, amount in given.items() if amount is not None}


def revoke_token(token_id: str) -> Call[TokenView]:
    """End a token, at once."""
    request = Request(method="DELETE", path=f"/v1/tokens/{quote(token_id, safe='')}")
    return Call(request=request, read=_as(TokenView))


def _as(model: type[Model]) -> Callable[[Reply], Model]:
    return lambda reply: model.model_validate_json(reply.body)


def _path(workload_id: str) -> str:
    return f"{BASE}/{quote(workload_id, safe='')}"


def _one(workload_id: str, below: str = "", query: tuple[tuple[str, str], ...] = ()) -> Request:
    return Request(method="GET", path=_path(workload_id) + below, query=query)


def _post(path: str, document: Document, key: str) -> Request:
    headers = (*JSON_BODY, ("idempotency-key", key))
    return Request(method="POST", path=path, headers=headers, body=_encoded(document))


def _quoted(quote: str | None) -> tuple[tuple[str, str], ...]:
    return () if quote is None else (("quote", quote),)


def _epoch(epoch: int | None) -> list[tuple[str, str]]:
    return [] if epoch is None else [("epoch", str(epoch))]


def _encoded(document: Document) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", errors="surrogatepass")
