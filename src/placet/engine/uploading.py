"""Machines that put their outputs into the object store themselves: what each may write, and when that is final.

A machine shows a pass, which names one attempt and ends by itself. It may write below that attempt's own place while
the attempt is the workload's current one and not over; its list of outputs is committed once. No byte of an output
comes here, and nothing is kept between two questions.
"""

import asyncio
import hashlib
import hmac
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from placet.domain.records import Attempt, Workload
from placet.engine.manifests import MANIFEST, OUTPUTS, manifest_bytes
from placet.failpoints import Point, passing
from placet.ports.ambient import Clock
from placet.ports.artifacts import Artifacts, PartDigest, PartUploads, SignedPut, Told
from placet.ports.store import Store

PASS = re.compile(r"plcr_(wl_[0-9a-z]{8,40})_([0-9]{1,7})_([0-9]{10,14})_([0-9a-f]{64})", re.ASCII)
KEY_OF_PASSES = "attempt passes"
LINK_S = 900
LOOKS_AT_ONCE = 16
PATH_BYTES_MAX = 512
DEPTH_MAX = 32


@dataclass(frozen=True, kw_only=True)
class Announced:
    """One file as its machine tells of it: with the parts that it wants addresses for, or all of them at the end."""

    name: str
    path: str
    told: Told
    upload_id: str | None = None
    parts: tuple[PartDigest, ...] = ()
    check: bool = False


@dataclass(frozen=True, kw_only=True)
class Granted:
    """What may be sent of a file, by part; ``stored`` if nothing needs to be. Without an upload's id: one request."""

    path: str
    stored: bool = False
    upload_id: str | None = None
    links: tuple[tuple[int, SignedPut], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refused:
    """The machine may not do that, or not any more; ``final`` says that asking again is of no use."""

    why: str
    final: bool = True
    wrong: tuple[int | str, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Bearer:
    """The attempt that a pass names."""

    workload_id: str
    epoch: int


class Passes:
    """Passes of attempts: made without writing anything down, checked without looking anything up but one key."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._key: bytes | None = None

    async def issue(self, workload_id: str, epoch: int, for_s: int) -> str:
        """A pass for one attempt, good for so long. It reaches the machine of that attempt and nobody else."""
        body = f"{workload_id}_{epoch}_{self._clock.now_ms() + for_s * 1000}"
        return f"plcr_{body}_{await self._signed(body)}"

    async def bearer(self, text: str) -> Bearer | None:
        """Whose pass it is; ``None`` for one that was not issued here, was changed, or has ended."""
        match = PASS.fullmatch(text)
        if match is None:
            return None
        signed = await self._signed(f"{match[1]}_{match[2]}_{match[3]}")
        if not hmac.compare_digest(signed, match[4]) or int(match[3]) <= self._clock.now_ms():
            return None
        return Bearer(workload_id=match[1], epoch=int(match[2]))

    async def _signed(self, body: str) -> str:
        if self._key is None:
            self._key = await passing(Point.CREDENTIAL, self._store.secret(KEY_OF_PASSES))
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


class Uploading:
    """The use cases. ``parts`` is ``None`` where outputs are in no store that signs addresses."""

    def __init__(self, store: Store, artifacts: Artifacts, parts: PartUploads | None, clock: Clock) -> None:
        self._store, self._artifacts, self._parts = store, artifacts, parts
        self.passes = Passes(store, clock)

    async def grant(self, bearer: Bearer, files: Sequence[Announced]) -> Sequence[Granted] | Refused:
        """Addresses for what is still to be sent. ``OSError`` where the store cannot be asked."""
        held = await self._held(bearer)
        if isinstance(held, Refused):
            return held
        if self._parts is None:
            return Refused(why="outputs of this server are not in an object store that signs addresses")
        granted = []
        for one in files:
            location = self._location(held[0], bearer.epoch, one.path)
            if isinstance(location, Refused):
                return location
            granted.append(await self._granted(self._parts, location, one))
        return granted

    async def complete(self, bearer: Bearer, file: Announced) -> Refused | None:
        """Make a file of its parts, if the store has each as it was announced."""
        held = await self._held(bearer)
        if isinstance(held, Refused):
            return held
        location = self._location(held[0], bearer.epoch, file.path)
        if isinstance(location, Refused):
            return location
        if self._parts is None or file.upload_id is None:
            return Refused(why="there is no such upload")
        wrong = await passing(Point.KEEP_PARTS, self._parts.finish(location, file.upload_id, file.parts))
        if not wrong or await self._parts.holds(location, file.told):
            return None
        return Refused(why="the store has other bytes than those announced", final=False, wrong=tuple(wrong))

    async def commit(self, bearer: Bearer, files: Sequence[Announced]) -> Refused | None:
        """The list of outputs, last and once; again with the same list is no error."""
        held = await self._held(bearer)
        if isinstance(held, Refused):
            return held
        workload, parts = held[0], self._parts
        if parts is None:
            return Refused(why="outputs of this server are not in an object store that signs addresses")
        if len({one.path for one in files}) != len(files):
            return Refused(why="a path stands twice in the list")
        some = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def lacking(one: Announced) -> str | None:
            location = self._location(workload, bearer.epoch, one.path)
            if isinstance(location, Refused):
                return one.path
            async with some:
                return None if await parts.holds(location, one.told) else one.path

        looked = await asyncio.gather(*(lacking(one) for one in files))
        wrong = tuple(path for path in looked if path is not None)
        if wrong:
            return Refused(why="not all of these files are in the store as announced", wrong=wrong[:20])
        listed = [(one.name, one.path, one.told.size_bytes, one.told.sha256) for one in files]
        return await self._committed(workload, bearer.epoch, manifest_bytes(workload.id, bearer.epoch, listed))

    async def _committed(self, workload: Workload, epoch: int, manifest: bytes) -> Refused | None:
        location = self._artifacts.location(workload.tenant, workload.id, epoch, MANIFEST)
        if await passing(Point.OUTPUT_MANIFEST, self._artifacts.commit(location, manifest)):
            return None
        earlier = b"".join([piece async for piece in self._artifacts.read(location)])
        return None if earlier == manifest else Refused(why="another list of outputs was committed for this attempt")

    async def _granted(self, parts: PartUploads, location: str, one: Announced) -> Granted:
        if one.check and await parts.holds(location, one.told):
            return Granted(path=one.path, stored=True)
        if len(one.parts) == 1 and one.parts[0].size_bytes == one.told.size_bytes:
            links = await parts.put_links(location, None, one.parts, LINK_S)
            return Granted(path=one.path, links=((one.parts[0].number, links[0]),))
        upload_id = one.upload_id
        stored = None if upload_id is None else await parts.stored_parts(location, upload_id)
        if upload_id is None or stored is None:
            upload_id, stored = await passing(Point.KEEP_PARTS, parts.begin(location)), {}
        left = [part for part in one.parts if not part.same_as(stored.get(part.number))]
        links = await parts.put_links(location, upload_id, left, LINK_S)
        pairs = tuple((part.number, link) for part, link in zip(left, links, strict=True))
        return Granted(path=one.path, upload_id=upload_id, links=pairs)

    def _location(self, workload: Workload, epoch: int, path: str) -> str | Refused:
        """Derived from the attempt's own row: a path says only what stands below that."""
        if (
            unicodedata.normalize("NFC", path) != path
            or any(ord(sign) < 32 or ord(sign) == 127 for sign in path)
            or len(path.encode(errors="replace")) > PATH_BYTES_MAX
            or path.count("/") >= DEPTH_MAX
        ):
            return Refused(why="that is no path of an output")
        try:
            return self._artifacts.location(workload.tenant, workload.id, epoch, f"{OUTPUTS}/{path}")
        except ValueError:
            return Refused(why="that is no path of an output")

    async def _held(self, bearer: Bearer) -> tuple[Workload, Attempt] | Refused:
        """The attempt, as long as it may write."""
        records = await self._store.load([bearer.workload_id])
        if not records:
            return Refused(why="there is no such attempt")
        workload, attempt = records[0].workload, records[0].current
        if attempt is None or attempt.epoch != bearer.epoch or workload.final or attempt.released_ms is not None:
            return Refused(why="this attempt is over, or another one has taken its place")
        return workload, attempt
