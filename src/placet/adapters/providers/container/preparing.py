"""From an accepted request to a container that waits for its permit: image, files, container. Any server can go on.

What is done is seen at the engine and nowhere else; doing it twice at a time does it once.
"""

import json
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from placet.adapters.providers.container import files, names, request, tars
from placet.adapters.providers.container.api import EngineApi, Refused, named
from placet.adapters.providers.container.images import ARCHITECTURES, Images, NoImage
from placet.adapters.providers.container.marks import Marks
from placet.adapters.providers.container.options import ContainerOptions
from placet.domain.failures import Cause
from placet.runner.fetch import Refused as NotFetched

Json = dict[str, Any]

HOLD_IMAGE, HOLD_TAG = "localhost/placet-hold", "latest"
SCRIPT = Path(__file__).with_name("beside.sh")
REQUEST = "request"
# A name without all that belongs to it: so long it may be one that is just being made.
YOUNG_MS = 60_000


class CannotBegin(Exception):
    """It will never begin: the cause, and why."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class Preparing:
    """The steps; whoever calls them decides when."""

    def __init__(self, api: EngineApi, images: Images, marks: Marks, options: ContainerOptions) -> None:
        self._api = api
        self._images = images
        self._marks = marks
        self._options = options
        self.architecture = ""
        # Does an archive that is unpacked at the root of a container reach its volumes?
        self.through_mounts = True

    async def keep(self, document: Json, labels: Mapping[str, str]) -> bool:
        """Keep the request where every server finds it, in the attempt's own volume; false if somebody else does."""
        body = request.hold_body(document, dict(labels), f"{HOLD_IMAGE}:{HOLD_TAG}")
        name = names.hold(document["key"])
        if document["checkpoints"]:
            await self._marks.share(document["deployment"], document["workload_id"])
        try:
            made = await self._create(body, name)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            await self._make_hold_image()
            made = await self._create(body, name)
        if made:
            if self.through_mounts:
                await files.put(self._api, name, "/", _first(document, names.PLACE.lstrip("/")))
            else:
                await files.put(self._api, name, names.PLACE, _first(document, "."))
        return made

    async def prepare(self, key: str, document: Json | None, labels: Mapping[str, str], now_ms: int) -> bool:
        """Do what is still to be done, to the created container or the mark that says why there is none: then true."""
        try:
            if document is None:
                document = await self._kept(key)
            if document is None and now_ms - names.count(labels.get(names.CREATED)) < YOUNG_MS:
                return False  # whoever makes it may still be about to say what it is
            if document is None:
                raise CannotBegin(Cause.LOST, "its request did not reach the engine as a whole; nothing ran")
            await self._steps(key, document, labels)
        except (CannotBegin, NoImage) as error:
            await self._marks.put(key, names.Mark.FAILED, labels, cause=error.cause, says=str(error))
        return True

    async def drop_hold(self, key: str) -> None:
        """The placeholder has done its work. Idempotent."""
        try:
            await self._api.delete(named("containers", names.hold(key)), force=True, v=True)
        except Refused as refusal:
            if refusal.status not in (404, 409):
                raise

    async def _steps(self, key: str, document: Json, labels: Mapping[str, str]) -> None:
        facts = await self._images.facts(document["image"])
        if facts is None:
            await self._images.pull(document["image"])
            facts = await self._images.facts(document["image"])
        if facts is None:
            raise CannotBegin(Cause.IMAGE, f"{document['image']} was pulled, and the engine does not have it")
        ours = ARCHITECTURES.get(self.architecture, self.architecture)
        if ours and facts.architecture and facts.architecture != ours:
            raise CannotBegin(
                Cause.IMAGE,
                f"{document['image']} is built for {facts.architecture}, and the engine's machine is {ours}",
            )
        await self._bring_inputs(key, document)
        try:
            body = request.body(document, dict(labels), facts, self._options)
        except ValueError as error:
            raise CannotBegin(Cause.START_FAILED, str(error)) from None
        if not facts.shell:
            # There is nothing that could read them from a file.
            body["Env"] += [f"{name}={value}" for name, value in document["secrets"].items()]
        try:
            await self._create(body, key)
        except Refused as refusal:
            cause = Cause.INVALID_REQUEST if refusal.status == 400 else Cause.PROVIDER_ERROR
            raise CannotBegin(cause, f"the engine refuses the container: {refusal.message}") from None

    async def _create(self, body: Json, name: str) -> bool:
        """True for the one who made it: the name may be taken a moment before it can be used."""
        try:
            await self._api.post("/containers/create", body, name=name)
        except Refused as refusal:
            if not taken(refusal):
                raise
            return False
        return True

    async def _kept(self, key: str) -> Json | None:
        found = await files.small_files(self._api, names.hold(key), names.PLACE)
        try:
            document: Json = json.loads(found.get(REQUEST, b""))
        except ValueError:
            return None
        return document

    async def _bring_inputs(self, key: str, document: Json) -> None:
        for item in document["inputs"]:
            try:
                with tempfile.TemporaryDirectory(prefix="placet-input-") as folder:
                    pieces = await self._input(item, Path(folder), document["disk_bytes"])
                    await files.put(self._api, names.hold(key), names.INPUTS, _ended(pieces))
            except (OSError, NotFetched) as error:
                raise CannotBegin(Cause.INPUT, f"input {item['name']!r}: {error}") from None

    async def _input(self, item: Json, folder: Path, bytes_max: int | None) -> AsyncIterator[bytes]:
        target = str(item["name"])
        match item["kind"]:
            case "text":
                return _pieces(tars.small(target, item["source"].encode("utf-8", "surrogateescape"), 0o444))
            case "http":
                fetched = await fetched_file(item, folder, self._options.allowed_hosts, bytes_max)
                return files.local_tree(str(fetched), target)
            case _:
                return files.local_tree(item["source"].removeprefix("file://"), target)

    async def _make_hold_image(self) -> None:
        """An image of one empty file, made here: nothing is downloaded for a container that never runs."""
        archive = tars.small("hold", b"", 0o444) + tars.END
        await self._api.send("/images/create", archive, fromSrc="-", repo=HOLD_IMAGE, tag=HOLD_TAG)


async def fetched_file(item: Json, folder: Path, allowed_hosts: tuple[str, ...], bytes_max: int | None) -> Path:
    """The body of a URL in a file, through the guarded client. Raises its ``Refused``."""
    import asyncio

    from placet.runner import fetch

    path = folder / "body"
    await asyncio.to_thread(
        fetch.fetch,
        item["source"],
        str(path),
        allowed_hosts=allowed_hosts,
        bytes_max=bytes_max or fetch.BYTES_MAX,
        sha256=item["sha256"],
    )
    return path


def taken(refusal: Refused) -> bool:
    """Is the name in use already?"""
    return refusal.status == 409 or (refusal.status == 500 and "in use" in refusal.message)


def assignments(secrets: Mapping[str, str]) -> bytes:
    """What a shell reads to have them in the environment of the program."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items()).encode()


async def _first(document: Json, place: str) -> AsyncIterator[bytes]:
    """The folders, our script, the secrets, and last the request: where it is, the others are."""
    if place == ".":
        yield tars.header(".", size_bytes=None, mode=files.EVERYBODY)
    else:
        yield files.folders(inputs=bool(document["inputs"]), checkpoints=bool(document["checkpoints"]))
    yield tars.small(f"{place}/beside", SCRIPT.read_bytes(), 0o444)
    if document["secrets"]:
        yield tars.small(f"{place}/secrets", assignments(document["secrets"]), 0o444)
    yield tars.small(f"{place}/{REQUEST}", json.dumps(document).encode(), 0o400)
    yield tars.END


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _ended(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece
    yield tars.END
