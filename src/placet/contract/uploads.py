"""What machines say of the outputs that they send to the object store themselves, and what they are told."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from placet.contract.api import View

FILES_MAX = 200
PARTS_MAX = 200
ALL_PARTS_MAX = 10_000
LISTED_MAX = 100_000

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Number = Annotated[int, Field(ge=1, le=10_000)]
Bytes = Annotated[int, Field(ge=0, le=50 * 10**12)]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class PartSaid(_Said):
    """A part of a file, with the digests to which its address is bound. `md5` may be empty."""

    number: Number
    size_bytes: Bytes
    sha256: Digest
    md5: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")] = ""


class FileSaid(_Said):
    """A file. `etag` and `parts_sha256` are how stores may name its content; both may be empty."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    path: Annotated[str, Field(min_length=1, max_length=512)]
    size_bytes: Bytes
    sha256: Digest
    etag: Annotated[str, Field(pattern=r"^([0-9a-f]{32}(-[0-9]{1,5})?)?$")] = ""
    parts_sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64}-[0-9]{1,5})?$")] = ""


class FileToSend(FileSaid):
    """A file with the parts that addresses are wanted for. `check`: look first whether the store has it already."""

    upload_id: Annotated[str | None, Field(max_length=2000)] = None
    parts: Annotated[tuple[PartSaid, ...], Field(min_length=1, max_length=PARTS_MAX)]
    check: bool = False


class UploadsBody(_Said):
    """Files to send; one part that is the whole file is sent in one request."""

    files: Annotated[tuple[FileToSend, ...], Field(min_length=1, max_length=FILES_MAX)]


class CompleteBody(FileSaid):
    """A file of which all parts were sent."""

    upload_id: Annotated[str, Field(min_length=1, max_length=2000)]
    parts: Annotated[tuple[PartSaid, ...], Field(min_length=1, max_length=ALL_PARTS_MAX)]


class ManifestBody(_Said):
    """All outputs of the attempt: said last, and once."""

    files: Annotated[tuple[FileSaid, ...], Field(max_length=LISTED_MAX)]


class LinkView(View):
    """Where to `PUT` one part, with these headers, within minutes."""

    number: int
    url: str
    headers: dict[str, str]


class FileGranted(View):
    """What is still to be sent of a file; `stored`: nothing."""

    path: str
    stored: bool
    upload_id: str | None = None
    links: tuple[LinkView, ...] = ()


class UploadsView(View):
    """In the order of the question."""

    files: list[FileGranted]


class StoredView(View):
    """It is in the store as announced."""

    stored: bool = True
