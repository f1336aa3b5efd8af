"""Routes for the machine of one attempt, which shows that attempt's pass and can do nothing else with it."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from placet.contract import uploads
from placet.engine.uploading import Announced, Bearer, Granted, Refused
from placet.ports.artifacts import PartDigest, Told
from placet.server import problems
from placet.server.doors import Doors, reply
from placet.server.table import Door, Repeat, Route, read_body

B = TypeVar("B", bound=BaseModel)
R = TypeVar("R")

BODY_MAX = 4 * 1024 * 1024
MANIFEST_BODY_MAX = 64 * 1024 * 1024
LATER = {"retry-after": "2"}


class Attempts:
    """Handlers over the use cases."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def routes(self) -> tuple[Route, ...]:
        """What these handlers answer to."""
        return (
            Route(door=UPLOADS, endpoint=self.uploads),
            Route(door=COMPLETE, endpoint=self.complete),
            Route(door=MANIFEST, endpoint=self.manifest),
        )

    async def uploads(self, request: Request) -> Response:
        """Signed addresses for files of this attempt. Each is bound to length and digests, and good for minutes."""
        bearer = await self._bearer(request)
        body = await _read(request, uploads.UploadsBody, BODY_MAX)
        wanted = [_announced(one, one.parts, upload_id=one.upload_id, check=one.check) for one in body.files]
        if sum(len(one.parts) for one in wanted) > uploads.FILES_MAX:
            raise problems.Refusal(
                problems.BAD_REQUEST,
                detail=f"addresses are given for at most {uploads.FILES_MAX} parts at a time",
                fix="ask for fewer, and again when they are sent",
            )
        granted = await _asked(self._doors.uploading.grant(bearer, wanted))
        assert not isinstance(granted, Refused)
        return reply(uploads.UploadsView(files=[_granted(one) for one in granted]))

    async def complete(self, request: Request) -> Response:
        """Make a file of its parts, if the store has each as it was announced."""
        bearer = await self._bearer(request)
        body = await _read(request, uploads.CompleteBody, BODY_MAX)
        file = _announced(body, body.parts, upload_id=body.upload_id)
        refused = await _asked(self._doors.uploading.complete(bearer, file))
        return reply(uploads.StoredView(stored=refused is None))

    async def manifest(self, request: Request) -> Response:
        """Commit the list of the attempt's outputs. Only the first list counts; the same one again is no error."""
        bearer = await self._bearer(request)
        body = await _read(request, uploads.ManifestBody, MANIFEST_BODY_MAX)
        await _asked(self._doors.uploading.commit(bearer, [_announced(one) for one in body.files]))
        return reply(uploads.StoredView())

    async def _bearer(self, request: Request) -> Bearer:
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        bearer = await self._doors.uploading.passes.bearer(text.strip()) if scheme.lower() == "bearer" else None
        if bearer is None:
            raise problems.Refusal(problems.UNAUTHORIZED)
        return bearer


async def _asked(asking: Awaitable[R]) -> R:
    """What came of it, unless the machine is to be refused."""
    try:
        outcome = await asking
    except OSError as error:
        raise problems.Refusal(
            problems.UNAVAILABLE, detail="the object store cannot be asked now", headers=LATER
        ) from error
    if isinstance(outcome, Refused) and outcome.final:
        told = f"{outcome.why}: {', '.join(map(str, outcome.wrong))}" if outcome.wrong else outcome.why
        raise problems.Refusal(problems.UPLOAD_REFUSED, detail=told)
    return outcome


async def _read(request: Request, model: type[B], limit: int) -> B:
    body = await read_body(request, limit)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise problems.Refusal(
            problems.BAD_REQUEST, detail=f"{place}: {first['msg']}", fix="see /v1/openapi.json"
        ) from error


def _announced(
    said: uploads.FileSaid,
    parts: Sequence[uploads.PartSaid] = (),
    *,
    upload_id: str | None = None,
    check: bool = False,
) -> Announced:
    return Announced(
        name=said.name,
        path=said.path,
        told=Told(size_bytes=said.size_bytes, sha256=said.sha256, etag=said.etag, parts_sha256=said.parts_sha256),
        upload_id=upload_id,
        parts=tuple(
            PartDigest(number=one.number, size_bytes=one.size_bytes, sha256=one.sha256, md5=one.md5) for one in parts
        ),
        check=check,
    )


def _granted(one: Granted) -> uploads.FileGranted:
    links = tuple(uploads.LinkView(number=number, url=put.url, headers=dict(put.headers)) for number, put in one.links)
    return uploads.FileGranted(path=one.path, stored=one.stored, upload_id=one.upload_id, links=links)


UPLOADS = Door(
    method="POST",
    path="/runner/v1/uploads",
    summary="Addresses to which a machine sends its outputs.",
    scope=None,
    attempt=True,
    repeat=Repeat.SAME,
    body_max=BODY_MAX,
    body=uploads.UploadsBody,
    reply=uploads.UploadsView,
    refusals=(problems.BAD_REQUEST, problems.UNAUTHORIZED, problems.UPLOAD_REFUSED),
)
COMPLETE = Door(
    method="POST",
    path="/runner/v1/complete",
    summary="Make a file of the parts that were sent.",
    scope=None,
    attempt=True,
    repeat=Repeat.SAME,
    body_max=BODY_MAX,
    body=uploads.CompleteBody,
    reply=uploads.StoredView,
    refusals=(problems.BAD_REQUEST, problems.UNAUTHORIZED, problems.UPLOAD_REFUSED),
)
MANIFEST = Door(
    method="POST",
    path="/runner/v1/manifest",
    summary="Commit the list of an attempt's outputs.",
    scope=None,
    attempt=True,
    repeat=Repeat.SAME,
    body_max=MANIFEST_BODY_MAX,
    body=uploads.ManifestBody,
    reply=uploads.StoredView,
    refusals=(problems.BAD_REQUEST, problems.UNAUTHORIZED, problems.UPLOAD_REFUSED),
)
DOORS = (UPLOADS, COMPLETE, MANIFEST)
