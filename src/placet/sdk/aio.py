"""The asyncio client, and the handle of a workload: the blocking one's twin over the same calls."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Unpack

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
from placet.sdk.aio_transport import AsyncTransport
from placet.sdk.client import PAGE, Spec, document_of, new_key
from placet.sdk.connection import Connection, connect
from placet.sdk.errors import Unreachable
from placet.sdk.specs import Document, InlineFields
from placet.sdk.wire import TRIES, pause_s


class AsyncClient:
    """Speaks to the server named by ``PLACET_URL``, else to that of the data folder, starting it if need be.

    It belongs to one event loop. Use it as a context or ``close`` it.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        start: bool = True,
    ) -> None:
        self._transport = AsyncTransport(lambda: connect(url=url, token=token, data_dir=data_dir, start=start))

    @classmethod
    def over(cls, connection: Connection) -> "AsyncClient":
        """A client over a connection that is already settled."""
        client = cls.__new__(cls)
        client._transport = AsyncTransport(lambda: connection)
        return client

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close idle connections. No workload minds."""
        await self._transport.close()

    # Submitting

    async def submit(
        self,
        spec: Spec | None = None,
        *,
        key: str | None = None,
        quote: str | None = None,
        **inline: Unpack[InlineFields],
    ) -> "AsyncWorkload":
        """Submit a spec: a path, a mapping, or keyword arguments (see ``placet.submit``).

        ``quote`` is the text of an estimate's quote: refused if the world has moved beyond it.

        Raises:
            SpecError, InvalidSpec: the workload was not accepted; every mistake is listed in ``problems``.
        """
        return await self.submit_document(document_of(spec, inline, "submit"), key=key, quote=quote)

    async def submit_document(
        self, document: Document, *, key: str | None = None, quote: str | None = None
    ) -> "AsyncWorkload":
        """Submit a document as it is; without a key, one is made, so that repeating after a fault is safe."""
        view = await self._transport.send(calls.submit(document, new_key() if key is None else key, quote))
        return AsyncWorkload(self, view)

    async def dry_run(
        self, spec: Spec | None = None, *, quote: str | None = None, **inline: Unpack[InlineFields]
    ) -> api.DryRunView:
        """Would it be accepted, and how was it understood?"""
        return await self._transport.send(calls.dry_run(document_of(spec, inline, "dry_run"), quote))

    async def estimate(self, spec: Spec | None = None, **inline: Unpack[InlineFields]) -> api.EstimateView:
        """What would happen, and what it may cost."""
        return await self._transport.send(calls.estimate(document_of(spec, inline, "estimate")))

    async def size(self, spec: Spec | None = None, **inline: Unpack[InlineFields]) -> api.SizeView:
        """How much GPU memory the model of a spec needs on each GPU, and why."""
        return await self._transport.send(calls.size(document_of(spec, inline, "size")))

    # Looking

    async def workload(self, workload_id: str) -> "AsyncWorkload":
        """The handle of a workload that exists."""
        return AsyncWorkload(self, await self.get(workload_id))

    async def get(self, workload_id: str) -> api.WorkloadView:
        """Where it stands."""
        return await self._transport.send(calls.get(workload_id))

    async def page(
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
        return await self._transport.send(call)

    async def attempts(self, workload_id: str) -> list[api.AttemptView]:
        """All attempts, first to last."""
        return (await self._transport.send(calls.attempts(workload_id))).items

    async def account(self, workload_id: str) -> api.AccountView:
        """The nine answers."""
        return await self._transport.send(calls.account(workload_id))

    async def explanation(self, workload_id: str, *, replay: bool = False) -> ExplanationView:
        """Why attempts run where they run; with ``replay`` each choice is made again from its record."""
        return await self._transport.send(calls.explanation(workload_id, replay))

    async def result(self, workload_id: str) -> api.ResultView:
        """The final document. Raises ``Conflict`` (code ``not_final``) before there is one."""
        return await self._transport.send(calls.result(workload_id))

    async def result_text(self, workload_id: str) -> str:
        """The final document, byte for byte as it is kept."""
        return await self._transport.send(calls.result_text(workload_id))

    async def offers(self, *, connected: bool | None = None, limit: int = 1000) -> api.OfferPage:
        """What there is to run on, price lists included, and the state of each source.

        ``connected`` asks only for what can be dispatched to, or only for what is listed for comparison.
        """
        return await self._transport.send(calls.offers(connected, limit))

    async def quarantined(self, *, limit: int = 1000) -> api.QuarantinePage:
        """Lines of price lists that were not believed, each with the reason."""
        return await self._transport.send(calls.quarantined(limit))

    async def match(self, spec: Spec | None = None, *, drops: int = 0, **inline: Unpack[InlineFields]) -> api.MatchView:
        """What becomes of every offer for a spec; ``drops`` of those that do not fit are named with their reason."""
        return await self._transport.send(calls.match(document_of(spec, inline, "match"), drops))

    async def provider_messages(self) -> list[ProviderMessageView]:
        """What providers said that no table knows, the latest first."""
        return (await self._transport.send(calls.provider_messages())).items

    async def providers(self) -> list[ProviderView]:
        """The providers of the server, each with its contract card."""
        return (await self._transport.send(calls.providers())).items

    async def calibration(self, *, limit: int = 1000, points: bool = False) -> CalibrationView:
        """How often cost, start, run and end lay within their forecasts, over the latest ended workloads.

        ``points`` asks for each forecast with its actual value too.
        """
        return await self._transport.send(calls.calibration(limit, points))

    async def health(self) -> api.HealthView:
        """Is the server alive, and of which version?"""
        return await self._transport.send(calls.health())

    async def events(self, workload_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[api.EventView]:
        """The account's lines; with ``follow`` as they come, to the last one."""
        if follow:
            async for told in self._transport.follow(calls.event_stream(workload_id, after)):
                yield calls.event(told)
            return
        while True:
            page = await self._transport.send(calls.events(workload_id, after, PAGE))
            for event in page.items:
                yield event
            if page.next is None:
                return
            after = int(page.next)

    async def logs(
        self, workload_id: str, *, stream: str = "stdout", epoch: int | None = None, follow: bool = False
    ) -> AsyncIterator[LogPieceView]:
        """Pieces of one attempt's log; with ``follow`` to its seal, also of ``stream="all"``."""
        if follow:
            async for told in self._transport.follow(calls.log_stream(workload_id, stream=stream, epoch=epoch)):
                yield calls.log_piece(told)
            return
        offset = 0
        while True:
            piece = await self._transport.send(calls.log_page(workload_id, stream=stream, epoch=epoch, offset=offset))
            if piece.next_offset > piece.offset or piece.dropped:
                yield piece
            if piece.sealed or piece.next_offset == offset:
                return
            offset = piece.next_offset

    async def event_page(self, workload_id: str, *, after: int = 0, limit: int = 200) -> api.EventPage:
        """A page of the account's lines after one of them."""
        return await self._transport.send(calls.events(workload_id, after, limit))

    async def log_piece(
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
        return await self._transport.send(call)

    # Changing

    async def redeliver(self, workload_id: str) -> api.WorkloadView:
        """Deliver what was computed and not delivered. Nothing is run again; repeating it changes nothing."""
        return await self._transport.send(calls.redeliver(workload_id))

    async def ledger(self, workload_id: str | None = None, *, limit: int = 1000) -> LedgerView:
        """Where the money of one workload went, or of the latest ones."""
        return await self._transport.send(calls.ledger(workload_id, limit))

    async def doubt(self, workload_id: str) -> DoubtView:
        """Is it unclear whether the current attempt runs, and what would going on without it cost?"""
        return await self._transport.send(calls.doubt(workload_id))

    async def go_on(self, workload_id: str) -> DoubtView:
        """Go on without the attempt that is in doubt, at the risk that both run. Repeating it changes nothing."""
        return await self._transport.send(calls.go_on(workload_id))

    async def cancel(self, workload_id: str) -> api.CancelView:
        """Ask for an end. Repeating it changes nothing."""
        return await self._transport.send(calls.cancel(workload_id))

    async def retry(self, workload_id: str, *, key: str | None = None) -> "AsyncWorkload":
        """Submit an ended workload again, as a new one."""
        return AsyncWorkload(
            self, await self._transport.send(calls.retry(workload_id, new_key() if key is None else key))
        )

    async def wait(self, workload_id: str, *, timeout_s: float | None = None) -> api.ResultView:
        """The result, once there is one.

        Raises:
            WaitTimeout: it did not come within the time; the workload goes on.
        """
        async for _ in self._transport.follow(calls.event_stream(workload_id), within_s=timeout_s):
            pass  # the stream ends with the workload
        return await self.result(workload_id)

    # Outputs

    async def artifacts(self, workload_id: str) -> list[api.ArtifactView]:
        """The delivered outputs, with sizes and digests."""
        return (await self._transport.send(calls.artifacts(workload_id))).items

    async def artifact_link(self, workload_id: str, artifact: api.ArtifactView) -> str | None:
        """An address from which anyone can download one output for some minutes; ``None`` where outputs are in a folder
        of the server."""
        return await self._transport.send(calls.artifact_link(workload_id, artifact))

    async def download(self, workload_id: str, artifact: api.ArtifactView, target: str | os.PathLike[str]) -> Path:
        """One output into a file, checked against its digest; a broken connection is resumed.

        Raises:
            UnexpectedReply: what came is not what the digest says.
        """
        tries = 0
        target = Path(target)
        with saving.Saved(target) as saved:
            while True:
                fault = await self._receive(workload_id, artifact, saved)
                tries += 1
                if saved.size_bytes >= artifact.size_bytes:
                    break
                if tries >= TRIES:
                    raise Unreachable(f"the download of {artifact.path} broke: {fault}", saving.BROKEN) from fault
                await asyncio.sleep(pause_s(tries, None))
            saved.finish(artifact.path, artifact.sha256)
        return target

    async def _receive(
        self, workload_id: str, artifact: api.ArtifactView, saved: saving.Saved
    ) -> httpx.TransportError | None:
        """What can be had over one connection."""
        request = calls.artifact_bytes(workload_id, artifact.path, artifact.epoch, saved.size_bytes)
        try:
            async for piece in self._transport.pieces(request):
                saved.write(piece)
        except httpx.TransportError as error:
            return error
        return None

    async def download_all(self, workload_id: str, folder: str | os.PathLike[str]) -> list[Path]:
        """All outputs of the newest attempt that has any, below a folder."""
        newest = saving.newest(await self.artifacts(workload_id))
        return [
            await self.download(workload_id, artifact, saving.inside(Path(folder), artifact.path))
            for artifact in newest
        ]

    # Budgets

    async def budgets(self) -> list[BudgetView]:
        """Budgets and how they stand: all for an operator, else those of the own tenant and token."""
        return (await self._transport.send(calls.budgets())).items

    async def set_budget(
        self, kind: str, holder: str, *, total_usd: Decimal | None = None, month_usd: Decimal | None = None
    ) -> BudgetView:
        """Set the budget of a `tenant` or a `token`, in US dollars; what it was before is replaced."""
        return await self._transport.send(calls.set_budget(kind, holder, total_usd, month_usd))

    async def drop_budget(self, kind: str, holder: str) -> DroppedBudgetView:
        """Take a budget away: there is no bound any more."""
        return await self._transport.send(calls.drop_budget(kind, holder))

    # Webhooks

    async def webhooks(self) -> HookPage:
        """All webhooks of the tenant, without their keys."""
        return await self._transport.send(calls.webhooks())

    async def create_webhook(self, url: str, states: Sequence[str] = ()) -> KeyedHookView:
        """Make a webhook that hears of moves to these states, or of all; its signing key is in the reply."""
        return await self._transport.send(calls.create_webhook(url, states))

    async def remove_webhook(self, webhook_id: str) -> HookView:
        """Forget a webhook and its messages."""
        return await self._transport.send(calls.remove_webhook(webhook_id))

    async def rotate_webhook(self, webhook_id: str) -> KeyedHookView:
        """Give a webhook a new signing key; for a day the old one signs too."""
        return await self._transport.send(calls.rotate_webhook(webhook_id))

    async def pause_webhook(self, webhook_id: str) -> HookView:
        """Send nothing more to a webhook; what happens meanwhile waits."""
        return await self._transport.send(calls.pause_webhook(webhook_id))

    async def resume_webhook(self, webhook_id: str) -> HookView:
        """Send to a webhook again."""
        return await self._transport.send(calls.resume_webhook(webhook_id))

    async def test_webhook(self, webhook_id: str) -> DispatchView:
        """Send a message that tells of nothing."""
        return await self._transport.send(calls.test_webhook(webhook_id))

    async def webhook_messages(self, webhook_id: str, *, state: str | None = None, limit: int = 100) -> DispatchPage:
        """The messages to a webhook, the newest first, and how they fared."""
        return await self._transport.send(calls.webhook_messages(webhook_id, state, limit))

    async def resend_message(self, webhook_id: str, message_id: str) -> DispatchView:
        """Send one message again, under its old id."""
        return await self._transport.send(calls.resend_message(webhook_id, message_id))

    async def replay_webhook(self, webhook_id: str, *, since_s: int = 3600) -> ReplayView:
        """Send again what a webhook was told in the last so many seconds."""
        return await self._transport.send(calls.replay_webhook(webhook_id, since_s))

    # Secrets

    async def secrets(self) -> SecretPage:
        """All secrets of the tenant, without their values."""
        return await self._transport.send(calls.secrets())

    async def set_secret(self, name: str, value: str) -> SecretView:
        """Set a secret, or a new version of it, for all attempts that are sent from now on."""
        return await self._transport.send(calls.set_secret(name, value))

    async def remove_secret(self, name: str) -> RemovedSecretView:
        """Forget a secret and all its versions. What runs keeps what it was given."""
        return await self._transport.send(calls.remove_secret(name))

    # Tokens

    async def orphans(self, *, closed: bool = False) -> OrphanPage:
        """Allocations that no attempt stands for; with ``closed`` those of the last week that are dealt with too."""
        return await self._transport.send(calls.orphans(closed))

    async def delete_orphan(self, orphan_id: str) -> OrphanView:
        """Ask for its deletion. Repeating it changes nothing."""
        return await self._transport.send(calls.delete_orphan(orphan_id))

    async def tokens(self) -> list[TokenView]:
        """All tokens, without their secrets."""
        return (await self._transport.send(calls.tokens())).items

    async def create_token(
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
        return await self._transport.send(call)

    async def revoke_token(self, token_id: str) -> TokenView:
        """End a token, at once."""
        return await self._transport.send(calls.revoke_token(token_id))


class AsyncWorkload:
    """A workload of which a client knows the id; ``view`` is how it stood when last asked."""

    def __init__(self, client: AsyncClient, view: api.WorkloadView) -> None:
        self._client = client
        self.view = view

    def __repr__(self) -> str:
        return f"<AsyncWorkload {self.id} {self.view.state}>"

    @property
    def id(self) -> str:
        return self.view.id

    @property
    def state(self) -> str:
        """As it was when last asked."""
        return self.view.state

    async def refresh(self) -> api.WorkloadView:
        """Ask again."""
        self.view = await self._client.get(self.id)
        return self.view

    async def wait(self, *, timeout_s: float | None = None) -> api.ResultView:
        """The result, once there is one. Raises ``WaitTimeout``."""
        found = await self._client.wait(self.id, timeout_s=timeout_s)
        await self.refresh()
        return found

    async def result(self) -> api.ResultView:
        """The result. Raises ``Conflict`` (code ``not_final``) before there is one."""
        return await self._client.result(self.id)

    async def logs(
        self, *, stream: str = "stdout", epoch: int | None = None, follow: bool = False
    ) -> AsyncIterator[bytes]:
        """Bytes of a log."""
        async for piece in self._client.logs(self.id, stream=stream, epoch=epoch, follow=follow):
            if piece.data:
                yield piece.data

    async def events(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[api.EventView]:
        """The account's lines."""
        async for event in self._client.events(self.id, after=after, follow=follow):
            yield event

    async def account(self) -> api.AccountView:
        """The nine answers."""
        return await self._client.account(self.id)

    async def explanation(self, *, replay: bool = False) -> ExplanationView:
        """Why its attempts run where they run."""
        return await self._client.explanation(self.id, replay=replay)

    async def cancel(self) -> api.CancelView:
        """Ask for an end."""
        return await self._client.cancel(self.id)

    async def retry(self) -> "AsyncWorkload":
        """Submit it again, as a new workload."""
        return await self._client.retry(self.id)

    async def artifacts(self) -> list[api.ArtifactView]:
        """The delivered outputs."""
        return await self._client.artifacts(self.id)

    async def download(self, path: str, target: str | os.PathLike[str] | None = None) -> Path:
        """One output into a file; without a target, under its own name here. Raises ``NoSuchOutput``."""
        artifact = saving.chosen(await self.artifacts(), path)
        return await self._client.download(
            self.id, artifact, Path(target) if target else Path(Path(artifact.path).name)
        )
