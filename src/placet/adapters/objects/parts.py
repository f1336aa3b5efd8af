"""Uploads in parts to S3, with an address signed for each part. It knows nothing of who may ask for them.

An address is bound to the length, the SHA-256 and the MD5 of its part: a store that checks either refuses other bytes.
What the store tells of the parts that it has is compared once more before they become an object.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from errno import EACCES, EAGAIN
from typing import Any, TypeVar

from placet.adapters.objects.naming import parts_of
from placet.adapters.objects.opening import first_line, s3_client
from placet.adapters.objects.places import Access, Place
from placet.ports.artifacts import PartDigest, SignedPut, Told

R = TypeVar("R")

# A part that is sent and listed in pages of a thousand.
PAGE = 1000
GONE = frozenset({"NoSuchUpload", "404", "NoSuchKey", "NotFound"})


class S3PartUploads:
    """One bucket and prefix. Constructing loads the client and sends nothing."""

    def __init__(self, place: Place, access: Access) -> None:
        self._bucket, self._prefix = place.bucket, place.key.strip("/")
        self._client = s3_client(access, public=False)
        self._signer = s3_client(access, public=True) if access.public_endpoint else self._client

    async def begin(self, location: str) -> str:
        asked = {**self._at(location), "ChecksumAlgorithm": "SHA256"}
        reply = await self._told(location, lambda: self._client.create_multipart_upload(**asked))
        return str(reply["UploadId"])

    async def put_links(
        self, location: str, upload_id: str | None, parts: Sequence[PartDigest], within_s: int
    ) -> Sequence[SignedPut]:
        at = self._at(location)

        def signed() -> list[SignedPut]:
            return [self._signed(at, upload_id, part, within_s) for part in parts]

        return await self._told(location, signed)

    async def stored_parts(self, location: str, upload_id: str) -> Mapping[int, PartDigest] | None:
        asked = {**self._at(location), "UploadId": upload_id, "MaxParts": PAGE}

        def listed() -> dict[int, PartDigest]:
            found: dict[int, PartDigest] = {}
            marker = 0
            while True:
                page = self._client.list_parts(**asked, PartNumberMarker=marker)
                for one in page.get("Parts", []):
                    found[int(one["PartNumber"])] = PartDigest(
                        number=int(one["PartNumber"]),
                        size_bytes=int(one["Size"]),
                        etag=str(one["ETag"]),
                        sha256=base64.b64decode(one.get("ChecksumSHA256") or "").hex(),
                        md5=_md5_of(str(one["ETag"])),
                    )
                marker = int(page.get("NextPartNumberMarker") or 0)
                if not page.get("IsTruncated") or not marker:
                    return found

        try:
            return await self._told(location, listed)
        except FileNotFoundError:
            return None

    async def finish(self, location: str, upload_id: str, parts: Sequence[PartDigest]) -> Sequence[int]:
        stored = await self.stored_parts(location, upload_id)
        if stored is None:
            return [part.number for part in parts]
        wrong = [part.number for part in parts if not part.same_as(stored.get(part.number))]
        if wrong or len(parts) != len(stored):
            return wrong or sorted(set(stored) - {part.number for part in parts})
        made = [
            {
                "PartNumber": part.number,
                "ETag": stored[part.number].etag,
                **({"ChecksumSHA256": _base64(part.sha256)} if stored[part.number].sha256 else {}),
            }
            for part in parts
        ]
        asked = {**self._at(location), "UploadId": upload_id, "MultipartUpload": {"Parts": made}}
        try:
            await self._told(location, lambda: self._client.complete_multipart_upload(**asked))
        except FileNotFoundError:
            return [part.number for part in parts]
        return []

    async def holds(self, location: str, told: Told) -> bool:
        asked = {**self._at(location), "ChecksumMode": "ENABLED"}
        try:
            found = await self._told(location, lambda: self._client.head_object(**asked))
        except FileNotFoundError:
            return False
        if found["ContentLength"] != told.size_bytes:
            return False
        checksum = base64.b64decode(str(found.get("ChecksumSHA256") or "").partition("-")[0]).hex()
        if checksum:  # of the whole, or of the parts' own where it was made of such
            return checksum in (told.sha256, told.parts_sha256.partition("-")[0])
        seen = str(found.get("ETag", "")).strip('"')
        # Some stores name what was made of parts by the MD5 of the whole, which is not to be had from the parts'.
        comparable = told.etag and _is_md5(seen) and ("-" in seen) == ("-" in told.etag)
        return not comparable or seen == told.etag

    def _at(self, location: str) -> dict[str, Any]:
        key = "/".join(parts_of(location))
        return {"Bucket": self._bucket, "Key": f"{self._prefix}/{key}" if self._prefix else key}

    def _signed(self, at: Mapping[str, Any], upload_id: str | None, part: PartDigest, within_s: int) -> SignedPut:
        headers = {"x-amz-checksum-sha256": _base64(part.sha256)}
        asked = {**at, "ChecksumSHA256": headers["x-amz-checksum-sha256"], "ContentLength": part.size_bytes}
        if part.md5:
            headers["Content-MD5"] = asked["ContentMD5"] = _base64(part.md5)
        verb = "put_object"
        if upload_id is not None:
            verb = "upload_part"
            asked |= {"UploadId": upload_id, "PartNumber": part.number}
        url = self._signer.generate_presigned_url(verb, Params=asked, ExpiresIn=within_s)
        return SignedPut(url=url, headers=headers)

    async def _told(self, location: str, asked: Callable[[], R]) -> R:
        """The library's errors as ours, off the event loop."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return await asyncio.to_thread(asked)
        except ClientError as error:
            told = error.response.get("Error", {})
            code, status = str(told.get("Code", "")), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if code in GONE or status == 404:
                raise FileNotFoundError(location) from error
            passes = isinstance(status, int) and status >= 500
            raise OSError(EAGAIN if passes else EACCES, f"the object store answered: {code}", location) from error
        except BotoCoreError as error:
            what = f"the object store cannot be asked: {first_line(error)}"
            raise OSError(EAGAIN, what, location) from error


def _md5_of(etag: str) -> str:
    plain = etag.strip('"')
    return plain if _is_md5(plain) else ""


def _is_md5(etag: str) -> bool:
    """Some stores call a content by another name; that tells nothing then."""
    digest, _, count = etag.partition("-")
    return len(digest) == 32 and set(digest) <= set("0123456789abcdef") and (not count or count.isdigit())


def _base64(digest: str) -> str:
    return base64.b64encode(bytes.fromhex(digest)).decode("ascii")
