"""The blocking client, and the handle of a workload. It holds a connection and no state of any workload."""

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, Unpack

import httpx

from placet.contract import api
from placet.contract.budgets import BudgetView, DroppedBudgetView
from placet.contract.explanations import ExplanationView
from placet.contract.forecasts import CalibrationView
from placet.contract.hooks import DispatchPage, DispatchView, HookPage, HookView, KeyedHookView, ReplayView
from placet.contract.ledgers import LedgerView
from placet.contract.logs import LogPieceView
from placet.contract.orphans import OrphanPage, OrphanView
from placet.contract.providers import ProviderMessageView, ProviderView
from placet.contract.resolving import DoubtView
from placet.contract.secrets import RemovedSecretView, SecretPage, SecretView
from placet.contract.tokens import IssuedTokenView, TokenView
from placet.sdk import calls, saving
from placet.sdk.connection import Connection, connect
from placet.sdk.errors import Unreachable
from placet.sdk.keywords import inline_of, refuse_unknown
from placet.sdk.specs import Document, InlineFields, from_file, from_inline, from_mapping
from placet.sdk.transport import Transport
from placet.sdk.wire import TRIES, pause_s

Spec: TypeAlias = str | os.PathLike[str] | Mapping[str, object]

PAGE = 200


class Client:
    """Speaks to the server named by ``PLACET_URL``, else to that of the data folder, starting it if need be.

    Thread-safe. Use it as a context or ``close`` it.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        start: bool = True,
    ) -> None:
        self._transport = _transport(connect(url=url, token=token, data_dir=data_dir, start=start))

    @classmethod
    def over(cls, connection: Connection) -> "Client":
        """A client over a connection that is already settled."""
        client = cls.__new__(cls)
        client._transport = _transport(connection)
        return client

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections. No workload minds."""
        self._transport.close()

    # Submitting

    def submit(
        self,
        spec: Spec | None = None,
        *,
        key: str | None = None,
        quote: str | None = None,
        **inline: Unpack[InlineFields],
    ) -> "Workload":
        """Submit a spec: a path, a mapping, or keyword arguments (see ``placet.submit``).

        ``quote`` is the text of an estimate's quote: refused if the world has moved beyond it.

        Raises:
            SpecError, InvalidSpec: the workload was not accepted; every mistake is listed in ``problems``.
        """
        return self.submit_document(document_of(spec, inline, "submit"), key=key, quote=quote)

    def submit_document(self, document: Document, *, key: str | None = None, quote: str | None = None) -> "Workload":
        """Submit a document as it is; without a key, one is made, so that repeating after a fault is safe."""
        view = self._transport.send(calls.submit(document, new_key() if key is None else key, quote))
        return Workload(self, view)

    def dry_run(
        self, spec: Spec | None = None, *, quote: str | None = None, **inline: Unpack[InlineFields]
    ) -> api.DryRunView:
        """Would it be accepted, and how was it understood?"""
        return self._transport.send(calls.dry_run(document_of(spec, inline, "dry_run"), quote))

    def estimate(self, spec: Spec | None = None, **inline: Unpack[InlineFields]) -> api.EstimateView:
        """What would happen, and what it may cost."""
        return self._transport.send(calls.estimate(document_of(spec, inline, "estimate")))

    def size(self, spec: Spec | None = None, **inline: Unpack[InlineFields]) -> api.SizeView:
        """How much GPU memory the model of a spec needs on each GPU, and why."""
        return self._transport.send(calls.size(document_of(spec, inline, "size")))

    # Looking

    def workload(self, workload_id: str) -> "Workload":
        """The handle of a workload that exists."""
        return Workload(self, self.get(workload_id))

    def get(self, workload_id: str) -> api.WorkloadView:
        """Where it stands."""
        return self._transport.send(calls.get(workload_id))

    def page(
        self,
        *,
        states: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> api.WorkloadPage:
        """A page of workloads, newest first."""
        call = calls.listing(states=states, labels=labels, name=name, limit=limit, cursor=cursor)
        return self._transport.send(call)

    def attempts(self, workload_id: str) -> list[api.AttemptView]:
        """All attempts, first to last."""
        return self._transport.send(calls.attempts(workload_id)).items

    def account(self, workload_id: str) -> api.AccountView:
        """The nine answers."""
        return self._transport.send(calls.account(workload_id))

    def explanation(self, workload_id: str, *, replay: bool = False) -> ExplanationView:
        """Why attempts run where they run; with ``replay`` each choice is made again from its record."""
        return self._transport.send(calls.explanation(workload_id, replay))

    def result(self, workload_id: str) -> api.ResultView:
        """The final document. Raises ``Conflict`` (code ``not_final``) before there is one."""
        return self._transport.send(calls.result(workload_id))

    def result_text(self, workload_id: str) -> str:
        """The final document, byte for byte as it is kept."""
        return self._transport.send(calls.result_text(workload_id))

    def offers(self, *, connected: bool | None = None, limit: int = 1000) -> api.OfferPage:
        """What there is to run on, price lists included, and the state of each source.

        ``connected`` asks only for what can be dispatched to, or only for what is listed for comparison.
        """
        return self._transport.send(calls.offers(connected, limit))

    def quarantined(self, *, limit: int = 1000) -> api.QuarantinePage:
        """Lines of price lists that were not believed, each with the reason."""
        return self._transport.send(calls.quarantined(limit))

    def match(self, spec: Spec | None = None, *, drops: int = 0, **inline: Unpack[InlineFields]) -> api.MatchView:
        """What becomes of every offer for a spec; ``drops`` of those that do not fit are named with their reason."""
        return self._transport.send(calls.match(document_of(spec, inline, "match"), drops))

    def provider_messages(self) -> list[ProviderMessageView]:
        """What providers said that no table knows, the latest first."""
        return (self._transport.send(calls.provider_messages())).items

    def providers(self) -> list[ProviderView]:
        """The providers of the server, each with its contract card."""
        return (self._transport.send(calls.providers())).items

    def calibration(self, *, limit: int = 1000, points: bool = False) -> CalibrationView:
        """How often cost, start, run and end lay within their forecasts, over the latest ended workloads.

        ``points`` asks for each forecast with its actual value too.
        """
        return self._transport.send(calls.calibration(limit, points))

    def health(self) -> api.HealthView:
        """Is the server alive, and of which version?"""
        return self._transport.send(calls.health())

    def events(self, workload_id: str, *, after: int = 0, follow: bool = False) -> Iterator[api.EventView]:
        """The account's lines; with ``follow`` as they come, to the last one."""
        if follow:
            for told in self._transport.follow(calls.event_stream(workload_id, after)):
                yield calls.event(told)
            return
        while True:
            page = self._transport.send(calls.events(workload_id, after, PAGE))
            yield from page.items
            if page.next is None:
                return
            after = int(page.next)

    def logs(
        self, workload_id: str, *, stream: str = "stdout", epoch: int | None = None, follow: bool = False
    ) -> Iterator[LogPieceView]:
        """Pieces of one attempt's log; with ``follow`` to its seal, also of ``stream="all"``."""
        if follow:
            for told in self._transport.follow(calls.log_stream(workload_id, stream=stream, epoch=epoch)):
                yield calls.log_piece(told)
            return
        offset = 0
        while True:
            piece = self._transport.send(calls.log_page(workload_id, stream=stream, epoch=epoch, offset=offset))
            if piece.next_offset > piece.offset or piece.dropped:
                yield piece
            if piece.sealed or piece.next_offset == offset:
                return
            offset = piece.next_offset

    def event_page(self, workload_id: str, *, after: int = 0, limit: int = 200) -> api.EventPage:
        """A page of the account's lines after one of them."""
        return self._transport.send(calls.events(workload_id, after, limit))

    def log_piece(
        self,
        workload_id: str,
        *,
        stream: str = "stdout",
        epoch: int | None = None,
        offset: int = 0,
        limit: int = 65_536,
    ) -> LogPieceView:
        """At most so many bytes of one stream from an offset, as far as they are there now."""
        call = calls.log_page(workload_id, stream=stream, epoch=epoch, offset=offset, limit=limit)
        return self._transport.send(call)

    # Changing

    def redeliver(self, workload_id: str) -> api.WorkloadView:
        """Deliver what was computed and not delivered. Nothing is run again; repeating it changes nothing."""
        return self._transport.send(calls.redeliver(workload_id))

    def ledger(self, workload_id: str | None = None, *, limit: int = 1000) -> LedgerView:
        """Where the money of one workload went, or of the latest ones."""
        return self._transport.send(calls.ledger(workload_id, limit))

    def doubt(self, workload_id: str) -> DoubtView:
        """Is it unclear whether the current attempt runs, and what would going on without it cost?"""
        return self._transport.send(calls.doubt(workload_id))

    def go_on(self, workload_id: str) -> DoubtView:
        """Go on without the attempt that is in doubt, at the risk that both run. Repeating it changes nothing."""
        return self._transport.send(calls.go_on(workload_id))

    def cancel(self, workload_id: str) -> api.CancelView:
        """Ask for an end. Repeating it changes nothing."""
        return self._transport.send(calls.cancel(workload_id))

    def retry(self, workload_id: str, *, key: str | None = None) -> "Workload":
        """Submit an ended workload again, as a new one."""
        return Workload(self, self._transport.send(calls.retry(workload_id, new_key() if key is None else key)))

    def wait(self, workload_id: str, *, timeout_s: float | None = None) -> api.ResultView:
        """The result, once there is one.

        Raises:
            WaitTimeout: it did not come within the time; the workload goes on.
        """
        for _ in self._transport.follow(calls.event_stream(workload_id), within_s=timeout_s):
            pass  # the stream ends with the workload
        return self.result(workload_id)

    # Outputs

    def artifacts(self, workload_id: str) -> list[api.ArtifactView]:
        """The delivered outputs, with sizes and digests."""
        return self._transport.send(calls.artifacts(workload_id)).items

    def artifact_link(self, workload_id: str, artifact: api.ArtifactView) -> str | None:
        """An address from which anyone can download one output for some minutes; ``None`` where outputs are in a folder
        of the server."""
        return self._transport.send(calls.artifact_link(workload_id, artifact))

    def download(self, workload_id: str, artifact: api.ArtifactView, target: str | os.PathLike[str]) -> Path:
        """One output into a file, checked against its digest; a broken connection is resumed.

        Raises:
            UnexpectedReply: what came is not what the digest says.
        """
        tries = 0
        target = Path(target)
        with saving.Saved(target) as saved:
            while True:
                fault = self._receive(workload_id, artifact, saved)
                tries += 1
                if saved.size_bytes >= artifact.size_bytes:
                    break
                if tries >= TRIES:
                    raise Unreachable(f"the download of {artifact.path} broke: {fault}", saving.BROKEN) from fault
                time.sleep(pause_s(tries, None))
            saved.finish(artifact.path, artifact.sha256)
        return target

    def _receive(
        self, workload_id: str, artifact: api.ArtifactView, saved: saving.Saved
    ) -> httpx.TransportError | None:
        """What can be had over one connection."""
        request = calls.artifact_bytes(workload_id, artifact.path, artifact.epoch, saved.size_bytes)
        try:
            for piece in self._transport.pieces(request):
                saved.write(piece)
        except httpx.TransportError as error:
            return error
        return None

    def download_all(self, workload_id: str, folder: str | os.PathLike[str]) -> list[Path]:
        """All outputs of the newest attempt that has any, below a folder."""
        newest = saving.newest(self.artifacts(workload_id))
        return [self.download(workload_id, artifact, saving.inside(Path(folder), artifact.path)) for artifact in newest]

    # Orphans

    def orphans(self, *, closed: bool = False) -> OrphanPage:
        """Allocations that no attempt stands for; with ``closed`` those of the last week that are dealt with too."""
        return self._transport.send(calls.orphans(closed))

    def delete_orphan(self, orphan_id: str) -> OrphanView:
        """Ask for its deletion. Repeating it changes nothing."""
        return self._transport.send(calls.delete_orphan(orphan_id))

    # Budgets

    def budgets(self) -> list[BudgetView]:
        """Budgets and how they stand: all for an operator, else those of the own tenant and token."""
        return (self._transport.send(calls.budgets())).items

    def set_budget(
        self, kind: str, holder: str, *, total_usd: Decimal | None = None, month_usd: Decimal | None = None
    ) -> BudgetView:
        """Set the budget of a `tenant` or a `token`, in US dollars; what it was before is replaced."""
        return self._transport.send(calls.set_budget(kind, holder, total_usd, month_usd))

    def drop_budget(self, kind: str, holder: str) -> DroppedBudgetView:
        """Take a budget away: there is no bound any more."""
        return self._transport.send(calls.drop_budget(kind, holder))

    # Webhooks

    def webhooks(self) -> HookPage:
        """All webhooks of the tenant, without their keys."""
        return self._transport.send(calls.webhooks())

    def create_webhook(self, url: str, states: Sequence[str] = ()) -> KeyedHookView:
        """Make a webhook that hears of moves to these states, or of all; its signing key is in the reply."""
        return self._transport.send(calls.create_webhook(url, states))

    def remove_webhook(self, webhook_id: str) -> HookView:
        """Forget a webhook and its messages."""
        return self._transport.send(calls.remove_webhook(webhook_id))

    def rotate_webhook(self, webhook_id: str) -> KeyedHookView:
        """Give a webhook a new signing key; for a day the old one signs too."""
        return self._transport.send(calls.rotate_webhook(webhook_id))

    def pause_webhook(self, webhook_id: str) -> HookView:
        """Send nothing more to a webhook; what happens meanwhile waits."""
        return self._transport.send(calls.pause_webhook(webhook_id))

    def resume_webhook(self, webhook_id: str) -> HookView:
        """Send to a webhook again."""
        return self._transport.send(calls.resume_webhook(webhook_id))

    def test_webhook(self, webhook_id: str) -> DispatchView:
        """Send a message that tells of nothing."""
        return self._transport.send(calls.test_webhook(webhook_id))

    def webhook_messages(self, webhook_id: str, *, state: str | None = None, limit: int = 100) -> DispatchPage:
        """The messages to a webhook, the newest first, and how they fared."""
        return self._transport.send(calls.webhook_messages(webhook_id, state, limit))

    def resend_message(self, webhook_id: str, message_id: str) -> DispatchView:
        """Send one message again, under its old id."""
        return self._transport.send(calls.resend_message(webhook_id, message_id))

    def replay_webhook(self, webhook_id: str, *, since_s: int = 3600) -> ReplayView:
        """Send again what a webhook was told in the last so many seconds."""
        return self._transport.send(calls.replay_webhook(webhook_id, since_s))

    # Secrets

    def secrets(self) -> SecretPage:
        """All secrets of the tenant, without their values."""
        return self._transport.send(calls.secrets())

    def set_secret(self, name: str, value: str) -> SecretView:
        """Set a secret, or a new version of it, for all attempts that are sent from now on."""
        return self._transport.send(calls.set_secret(name, value))

    def remove_secret(self, name: str) -> RemovedSecretView:
        """Forget a secret and all its versions. What runs keeps what it was given."""
        return self._transport.send(calls.remove_secret(name))

    # Tokens

    def tokens(self) -> list[TokenView]:
        """All tokens, without their secrets."""
        return self._transport.send(calls.tokens()).items

    def create_token(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        expires_in_s: int | None = None,
        budget_usd: Decimal | None = None,
        month_budget_usd: Decimal | None = None,
    ) -> IssuedTokenView:
        """Make a token with at most the rights of this client's own."""
        call = calls.create_token(name, scopes, expires_in_s, budget_usd=budget_usd, month_budget_usd=month_budget_usd)
        return self._transport.send(call)

    def revoke_token(self, token_id: str) -> TokenView:
        """End a token, at once."""
        return self._transport.send(calls.revoke_token(token_id))


class Workload:
    """A workload of which a client knows the id; ``view`` is how it stood when last asked."""

    def __init__(self, client: Client, view: api.WorkloadView) -> None:
        self._client = client
        self.view = view

    def __repr__(self) -> str:
        return f"<Workload {self.id} {self.view.state}>"

    @property
    def id(self) -> str:
        return self.view.id

    @property
    def state(self) -> str:
        """As it was when last asked."""
        return self.view.state

    def refresh(self) -> api.WorkloadView:
        """Ask again."""
        self.view = self._client.get(self.id)
        return self.view

    def wait(self, *, timeout_s: float | None = None) -> api.ResultView:
        """The result, once there is one. Raises ``WaitTimeout``."""
        found = self._client.wait(self.id, timeout_s=timeout_s)
        self.refresh()
        return found

    def result(self) -> api.ResultView:
        """The result. Raises ``Conflict`` (code ``not_final``) before there is one."""
        return self._client.result(self.id)

    def logs(self, *, stream: str = "stdout", epoch: int | None = None, follow: bool = False) -> Iterator[bytes]:
        """Bytes of a log."""
        for piece in self._client.logs(self.id, stream=stream, epoch=epoch, follow=follow):
            if piece.data:
                yield piece.data

    def events(self, *, after: int = 0, follow: bool = False) -> Iterator[api.EventView]:
        """The account's lines."""
        return self._client.events(self.id, after=after, follow=follow)

    def account(self) -> api.AccountView:
        """The nine answers."""
        return self._client.account(self.id)

    def explanation(self, *, replay: bool = False) -> ExplanationView:
        """Why its attempts run where they run."""
        return self._client.explanation(self.id, replay=replay)

    def cancel(self) -> api.CancelView:
        """Ask for an end."""
        return self._client.cancel(self.id)

    def retry(self) -> "Workload":
        """Submit it again, as a new workload."""
        return self._client.retry(self.id)

    def artifacts(self) -> list[api.ArtifactView]:
        """The delivered outputs."""
        return self._client.artifacts(self.id)

    def download(self, path: str, target: str | os.PathLike[str] | None = None) -> Path:
        """One output into a file; without a target, under its own name here. Raises ``NoSuchOutput``."""
        artifact = saving.chosen(self.artifacts(), path)
        return self._client.download(self.id, artifact, Path(target) if target else Path(Path(artifact.path).name))


def document_of(spec: Spec | None, inline: InlineFields, function: str) -> Document:
    """The document of whatever a public function was given, its paths settled."""
    if spec is None:
        return from_inline(inline_of(inline, function), Path.cwd())
    refuse_unknown(inline, function)
    if inline:
        raise TypeError(f"{function}() takes either a spec or keyword arguments, not both: {', '.join(inline)}")
    if isinstance(spec, Mapping):
        return from_mapping(spec, Path.cwd())
    if not isinstance(spec, str | os.PathLike):
        raise TypeError(f"{function}() takes a path, a mapping or keyword arguments, not {type(spec).__name__}")
    return from_file(Path(spec))


def new_key() -> str:
    """An idempotency key nobody else has."""
    return secrets.token_hex(16)


def _transport(connection: Connection) -> Transport:
    return Transport(connection.location, connection.revive)
