"""Routes for what a workload gives: events, logs, artifacts; as pages, and events and logs as streams too."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from placet.contract import api
from placet.contract.logs import LogPieceView, text_or_base64
from placet.domain.allocations import LogChunk
from placet.domain.records import Artifact, Workload
from placet.server import mapping, problems, streams
from placet.server.asking import Asked, asked
from placet.server.cursors import LogCursor, bad_cursor, event_seq
from placet.server.doors import Doors, no_workload, reply, wants_stream, workload_id_of
from placet.server.ranges import asked_range
from placet.server.table import Door, Route, principal_of
from placet.server.tokens import Scope
from placet.server.workloads import ABSENT, ONE

EVENTS_MAX = 200
LOG_PAGE_MAX = 1024 * 1024
LOG_STREAMS = ("stdout", "stderr", "install")
# Kept below what one event of a stream may hold, base64 included.
LOG_PIECE_BYTES = 256 * 1024
SAFE_MEDIA = re.compile(r"[a-z]+/[a-z0-9.+-]+", re.ASCII)

Epoch = Annotated[int | None, Field(ge=1, le=1_000_000, description="Which attempt; the newest if not said.")]


class EventsAsked(Asked):
    """Which lines of the account."""

    after: int = Field(0, ge=0, le=2**62, description="Only events after this `seq`.")
    limit: int = Field(EVENTS_MAX, ge=1, le=EVENTS_MAX)


class LogsAsked(Asked):
    """Which bytes of which log."""

    stream: Literal["stdout", "stderr", "install", "all"] = "stdout"
    epoch: Epoch = None
    offset: int = Field(0, ge=0, le=2**62, description="Of the first wanted byte.")
    limit: int = Field(64 * 1024, ge=1, le=LOG_PAGE_MAX)


class ArtifactAsked(Asked):
    """Of which attempt, and whether from here or from where it is kept."""

    epoch: Epoch = None
    redirect: bool = Field(False, description="Rather a redirect to a signed address, valid for minutes.")


class Outputs:
    """Handlers over queries."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=EVENTS, endpoint=self.events),
            Route(door=LOGS, endpoint=self.logs),
            Route(door=ARTIFACTS, endpoint=self.artifacts),
            Route(door=ARTIFACT, endpoint=self.artifact),
        )

    async def events(self, request: Request) -> Response:
        """The account's lines in order. With `Accept: text/event-stream` they come as they happen, to the last."""
        tenant, workload_id, page = principal_of(request).tenant, workload_id_of(request), asked(request, EventsAsked)
        after = event_seq(request.headers.get("last-event-id"), page.after)
        if wants_stream(request):
            workload = await self._doors.queries.find(tenant, workload_id)
            if workload is None:
                raise no_workload()
            return self._doors.stream(request, self._event_source(workload, after))
        found = await self._doors.queries.events(tenant, workload_id, after, page.limit)
        if found is None:
            raise no_workload()
        following = str(found[-1].seq) if len(found) == page.limit else None
        return reply(api.EventPage(items=[mapping.event(one) for one in found], next=following))

    async def _event_source(self, workload: Workload, after: int) -> AsyncIterator[bytes]:
        source = self._doors.queries.follow_events(workload, after)
        try:
            async for page in source:
                views = ((mapping.event(event).model_dump_json(), str(event.seq)) for event in page)
                yield b"".join(streams.encode(view, kind="event", event_id=seq) for view, seq in views)
        finally:
            await streams.close(source)

    async def logs(self, request: Request) -> Response:
        """Bytes of a log of one attempt. `Accept: application/octet-stream` gives them raw, with headers that say where
        they stand; `text/event-stream` gives them as they come until the log is sealed, also of all streams at once.
        """
        tenant, wanted = principal_of(request).tenant, asked(request, LogsAsked)
        if wants_stream(request):
            return await self._log_stream(request, wanted)
        if wanted.stream == "all":
            raise problems.Refusal(
                problems.BAD_REQUEST,
                detail="stream: `all` is for text/event-stream",
                fix="name one stream, or ask for `Accept: text/event-stream`",
            )
        page = await self._doors.queries.logs(tenant, workload_id_of(request), **wanted.model_dump())
        if page is None:
            raise problems.Refusal(
                problems.NOT_FOUND,
                detail="there is no such workload, or it has no such attempt yet",
                fix="check the id and the epoch; `placet show ID` lists the attempts",
            )
        if "application/octet-stream" in request.headers.get("accept", ""):
            headers = {
                "placet-log-epoch": str(page.epoch),
                "placet-log-offset": str(page.offset),
                "placet-log-next-offset": str(page.next_offset),
                "placet-log-dropped": str(page.dropped),
                "placet-log-sealed": str(page.sealed).lower(),
            }
            return Response(page.data, headers=headers, media_type="application/octet-stream")
        text, encoded = text_or_base64(page.data)
        return reply(
            LogPieceView(
                epoch=page.epoch,
                stream=page.stream,
                offset=page.offset,
                next_offset=page.next_offset,
                text=text,
                base64=encoded,
                dropped=page.dropped,
                sealed=page.sealed,
            )
        )

    async def _log_stream(self, request: Request, page: LogsAsked) -> Response:
        tenant, workload_id = principal_of(request).tenant, workload_id_of(request)
        record = await self._doors.queries.get(tenant, workload_id)
        if record is None:
            raise no_workload()
        wanted = LOG_STREAMS if page.stream == "all" else (page.stream,)
        cursor = LogCursor.read(request.headers.get("last-event-id"))
        if cursor is None:
            known = page.epoch or (record.attempts[-1].epoch if record.attempts else 1)
            cursor = LogCursor(epoch=known, offsets=dict.fromkeys(wanted, page.offset))
        if set(cursor.offsets) != set(wanted):
            raise bad_cursor()
        return self._doors.stream(request, self._log_source(tenant, workload_id, cursor))

    async def _log_source(self, tenant: str, workload_id: str, cursor: LogCursor) -> AsyncIterator[bytes]:
        sources = {
            stream: self._doors.queries.follow_logs(
                tenant, workload_id, epoch=cursor.epoch, stream=stream, offset=offset
            )
            for stream, offset in cursor.offsets.items()
        }
        chunks = merged(sources)
        try:
            async for stream, chunk in chunks:
                for piece in _pieces(chunk):
                    cursor = cursor.moved(stream, piece.offset + len(piece.data))
                    view = _piece_view(cursor.epoch, stream, piece).model_dump_json()
                    yield streams.encode(view, kind="log", event_id=str(cursor))
        finally:
            await streams.close(chunks)

    async def artifacts(self, request: Request) -> Response:
        """The delivered outputs of all attempts, with sizes and digests."""
        found = await self._doors.queries.artifacts(principal_of(request).tenant, workload_id_of(request))
        if found is None:
            raise no_workload()
        return reply(api.ArtifactPage(items=[mapping.artifact(one) for one in found]))

    async def artifact(self, request: Request) -> Response:
        """The bytes of one output, always as a download. A single `Range` is honoured. With `redirect=true` the answer
        is a redirect to the object store, where outputs are in one that signs addresses; else it makes no difference.
        """
        tenant, path = principal_of(request).tenant, str(request.path_params["path"])
        wished = asked(request, ArtifactAsked)
        artifact = await self._doors.queries.artifact(tenant, workload_id_of(request), path, wished.epoch)
        if artifact is None:
            raise problems.Refusal(
                problems.NOT_FOUND,
                detail="there is no such workload or artifact",
                fix="check the id and the path; `placet artifacts ls ID` lists them",
            )
        if wished.redirect:
            link = await self._doors.queries.artifact_link(artifact, _media(artifact))
            if link is not None:
                return Response(status_code=307, headers={"location": link, **_download_headers(artifact)})
        wanted = asked_range(request.headers.get("range"), artifact.size_bytes)
        headers = _download_headers(artifact)
        if wanted is None:
            headers["content-length"] = str(artifact.size_bytes)
            body = self._doors.queries.artifact_bytes(artifact, 0, artifact.size_bytes)
            return StreamingResponse(body, headers=headers, media_type=_media(artifact))
        start, stop = wanted
        headers["content-length"] = str(stop - start)
        headers["content-range"] = f"bytes {start}-{stop - 1}/{artifact.size_bytes}"
        body = self._doors.queries.artifact_bytes(artifact, start, stop)
        return StreamingResponse(body, 206, headers=headers, media_type=_media(artifact))


async def merged(sources: dict[str, AsyncIterator[LogChunk]]) -> AsyncIterator[tuple[str, LogChunk]]:
    """Chunks of several sources as each of them comes; one slow source holds up no other."""
    pending = {asyncio.ensure_future(anext(source, None)): name for name, source in sources.items()}
    try:
        while pending:
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                name, chunk = pending.pop(future), future.result()
                if chunk is not None:
                    yield name, chunk
                    pending[asyncio.ensure_future(anext(sources[name], None))] = name
    finally:
        for future in pending:
            future.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for source in sources.values():
            await streams.close(source)


def _piece_view(epoch: int, stream: str, piece: LogChunk) -> LogPieceView:
    text, encoded = text_or_base64(piece.data)
    return LogPieceView(
        epoch=epoch,
        stream=stream,
        offset=piece.offset,
        next_offset=piece.offset + len(piece.data),
        text=text,
        base64=encoded,
        dropped=piece.dropped,
        sealed=piece.final,
    )


def _pieces(chunk: LogChunk) -> Sequence[LogChunk]:
    """The chunk in pieces that fit into one event each."""
    if len(chunk.data) <= LOG_PIECE_BYTES:
        return (chunk,)
    starts = range(0, len(chunk.data), LOG_PIECE_BYTES)
    return [
        LogChunk(
            stream=chunk.stream,
            offset=chunk.offset + start,
            data=chunk.data[start : start + LOG_PIECE_BYTES],
            dropped=chunk.dropped if start == 0 else 0,
            final=chunk.final and start == starts[-1],
        )
        for start in starts
    ]


def _download_headers(artifact: Artifact) -> dict[str, str]:
    """The name is only a suggestion, and never a path; the digest is that of the whole artifact."""
    digest = bytes.fromhex(artifact.sha256.removeprefix("sha256:"))
    return {
        "content-disposition": f"attachment; filename*=UTF-8''{quote(artifact.path.rpartition('/')[2], safe='')}",
        "repr-digest": f"sha-256=:{base64.b64encode(digest).decode('ascii')}:",
        "etag": f'"{digest.hex()}"',
        "accept-ranges": "bytes",
        "placet-artifact-epoch": str(artifact.epoch),
    }


def _media(artifact: Artifact) -> str:
    """What the owner declared, if it is a plain type; never one that a browser would run."""
    declared = artifact.media_type
    return declared if SAFE_MEDIA.fullmatch(declared) else "application/octet-stream"


EVENTS = Door(
    method="GET",
    path=ONE + "/events",
    summary="The append-only account of a workload.",
    scope=Scope.READ,
    asked=EventsAsked,
    streams=True,
    reply=api.EventPage,
    refusals=(*ABSENT, problems.TOO_MANY),
)
LOGS = Door(
    method="GET",
    path=ONE + "/logs",
    summary="The log of an attempt.",
    scope=Scope.LOGS,
    asked=LogsAsked,
    streams=True,
    reply=LogPieceView,
    refusals=(*ABSENT, problems.TOO_MANY),
)
ARTIFACTS = Door(
    method="GET",
    path=ONE + "/artifacts",
    summary="The delivered outputs.",
    scope=Scope.ARTIFACTS,
    reply=api.ArtifactPage,
    refusals=ABSENT,
)
ARTIFACT = Door(
    method="GET",
    path=ONE + "/artifacts/{path:path}",
    summary="Download one output.",
    scope=Scope.ARTIFACTS,
    asked=ArtifactAsked,
    media_type="application/octet-stream",
    refusals=(*ABSENT, problems.RANGE),
)
DOORS = (EVENTS, LOGS, ARTIFACTS, ARTIFACT)
