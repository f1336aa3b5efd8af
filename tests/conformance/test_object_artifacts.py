"""The artifact store in buckets keeps the contract on real object stores, and what only buckets have besides."""

import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator
from email.message import Message
from pathlib import Path

import pytest

from placet.adapters.artifacts.objects import ObjectArtifacts
from placet.adapters.objects.places import Access, Unusable, parse_place
from placet.ports.artifacts import Artifacts
from placet.testing.conformance.artifacts import ArtifactsContract, content, pieces, sha256
from tests.support.object_stores import ObjectStore


def artifacts_in(store: ObjectStore) -> ObjectArtifacts:
    return ObjectArtifacts(store.bucket(f"b-{uuid.uuid4().hex[:12]}"), store.access)


def asked(link: str, body: bytes | None = None) -> tuple[int, bytes, Message]:
    """What somebody without credentials gets."""
    try:
        with urllib.request.urlopen(urllib.request.Request(link, data=body, method="PUT" if body else "GET")) as reply:
            return reply.status, reply.read(), reply.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b"", error.headers


class TestSigningStore(ArtifactsContract):
    creates_only = False

    @pytest.fixture
    def store(self, signing_store: ObjectStore) -> Artifacts:
        return artifacts_in(signing_store)


class TestCreatingStore(ArtifactsContract):
    @pytest.fixture
    def store(self, creating_store: ObjectStore) -> Artifacts:
        return artifacts_in(creating_store)


@pytest.mark.parametrize("size_bytes", [100, 9 * 1024 * 1024])
async def test_bytes_that_were_not_announced_leave_nothing(
    signing_store: ObjectStore, tmp_path: Path, size_bytes: int
) -> None:
    store = artifacts_in(signing_store)
    (tmp_path / "x").write_bytes(b"x" * size_bytes)
    location = store.location("t", "w", 1, "x")
    with pytest.raises(ValueError, match="announced"):
        await store.adopt(location, str(tmp_path / "x"), size_bytes=size_bytes, sha256=sha256(b"other"))
    assert await store.stat(location) is None


async def test_a_source_that_breaks_off_leaves_no_parts_behind(creating_store: ObjectStore) -> None:
    place = creating_store.bucket("parts-left")
    store = ObjectArtifacts(place, creating_store.access)

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 1024 * 1024
        raise ConnectionError("the source broke off")

    with pytest.raises(ConnectionError):
        await store.write(store.location("t", "w", 1, "x"), broken())
    assert not creating_store.client.list_multipart_uploads(Bucket=place.bucket).get("Uploads")


async def test_a_link_gives_the_object_to_anyone_and_nothing_else(signing_store: ObjectStore) -> None:
    store = artifacts_in(signing_store)
    one, other = store.location("t", "w", 1, "a ü.html"), store.location("t", "w", 1, "b")
    await store.write(one, pieces(b"<b>"))
    await store.write(other, pieces(b"other"))
    link = await store.link(one, within_s=60, filename="a ü.html", media_type="application/octet-stream")
    assert link is not None
    status, body, headers = asked(link)
    assert (status, body) == (200, b"<b>")
    assert headers["content-disposition"].startswith("attachment;")
    for wrong in (link.replace("%C3%BC.html", "%C3%BC.htm"), link[:-1] + ("0" if link[-1] != "0" else "1")):
        assert asked(wrong)[0] == 403
    assert asked(link, b"overwritten")[0] == 403
    expired = await store.link(one, within_s=-60, filename="x", media_type="text/plain")
    assert expired is not None
    assert asked(expired)[0] == 400
    assert await content(store, one) == b"<b>"


async def test_wrong_credentials_are_told_without_them(
    signing_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = signing_store.bucket("locked")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-0123456789")
    store = ObjectArtifacts(place, signing_store.access)
    with pytest.raises(OSError, match="object store answered") as told:
        await store.write(store.location("t", "w", 1, "x"), pieces(b"x"))
    assert "another-secret" not in str(told.value)


def test_no_credentials_are_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(Unusable, match="no credentials"):
        ObjectArtifacts(parse_place("s3://bucket"), Access())
