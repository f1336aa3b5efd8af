"""Frames, events, archives and records, however they are cut: read alike, bounded, refused when they are not ours."""

import asyncio
import io
import itertools
import tarfile
from collections.abc import AsyncIterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placet.adapters.providers.container.logs import NotFrames, frames
from placet.adapters.providers.container.tars import NoArchive, TarReader
from placet.runner.records import read_record
from placet.sdk import sse
from placet.sdk.sse import EventParser, ServerEvent, StreamTooLarge
from tests.support.fuzzing import fuzz, soon

cuts = st.lists(st.integers(0, 3_000), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place for place in places if place < len(data))})
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


async def given_out(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def all_frames(pieces: list[bytes]) -> list[tuple[str, bytes]] | None:
    found = []
    try:
        async for name, data in frames(given_out(pieces)):
            found.append((name, data))
    except NotFrames:
        return None
    return found


frame = st.tuples(st.sampled_from([0, 1, 2]), st.binary(max_size=30)).map(
    lambda each: bytes([each[0], 0, 0, 0]) + len(each[1]).to_bytes(4, "big") + each[1]
)
framed = st.one_of(st.binary(max_size=60), st.lists(frame, max_size=5).map(b"".join))


@fuzz
@given(framed, cuts)
@example(b"\x01\0\0\0\xff\xff\xff\xff", [4])
@example(b"\x01\0\0\0\0\0\0\x05ab", [9])
def test_frames_are_the_same_however_they_are_cut(data: bytes, places: list[int]) -> None:
    with soon():
        assert asyncio.run(all_frames(cut(data, places))) == asyncio.run(all_frames([data]))


def all_events(pieces: list[bytes]) -> list[ServerEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


events = st.lists(
    st.sampled_from([b"data: a", b"data:", b"event: x", b"id: 7", b"id: \0", b"", b"\r", b": hello", b"\xff", b"data"])
).map(b"\n".join)


@fuzz
@given(st.one_of(st.binary(max_size=80), events), cuts)
@example(b"data: \xc3\xa9\n\n", [7])
def test_events_are_the_same_however_they_are_cut(data: bytes, places: list[int]) -> None:
    assert all_events(cut(data, places)) == all_events([data])


@pytest.mark.parametrize("piece", [b"data:\n", b"data: x\n", b"xxxxxx"], ids=["empty lines", "lines", "no line"])
def test_an_event_without_an_end_is_refused(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST_EVENT_BYTES", 50_000)
    with soon(), pytest.raises(StreamTooLarge):
        all_events([piece * 1_000] * 100)


def archive(names: list[str], content: bytes) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as writer:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            writer.addfile(info, io.BytesIO(content))
    return held.getvalue()


def with_size(data: bytes, field: bytes) -> bytes:
    """The first header with another size, and a right checksum."""
    block = bytearray(data[:512])
    block[124:136] = field
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data[512:]


async def members(pieces: list[bytes]) -> list[tuple[str, int, int]] | None:
    reader = TarReader(given_out(pieces))
    found = []
    try:
        async for entry in reader.entries():
            size = sum([len(piece) async for piece in reader.data()])
            assert size == entry.size_bytes
            found.append((entry.path, entry.size_bytes, size))
    except NoArchive:
        return None
    return found


GOOD = archive(["a", "b" * 150, "é" * 60], b"content")


@fuzz
@given(st.binary(max_size=5), st.integers(0, len(GOOD)), st.integers(0, 600), cuts)
@example(b"", 0, 0, [])
@example(b"\xff" * 12, 124, 12, [])
def test_a_damaged_archive_is_read_or_refused(patch: bytes, at: int, length: int, places: list[int]) -> None:
    data = GOOD[:at] + patch + GOOD[at + length :]
    with soon():
        found = asyncio.run(members(cut(data, places)))
        assert found == asyncio.run(members([data]))


@fuzz
@given(st.binary(min_size=12, max_size=12))
@example(b"\xff" * 12)  # minus one
@example(b"\x80" + b"\xff" * 11)
@example(b"00000000007\0")
def test_a_member_of_any_size_is_read_or_refused(field: bytes) -> None:
    for data in (with_size(GOOD, field), with_size(archive(["é" * 60], b"x"), field)):
        with soon():
            asyncio.run(members([data]))


@pytest.mark.parametrize("size", ["-5", "x", "²", "9" * 5_000, "1e3"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    info = tarfile.TarInfo("a")
    info.pax_headers = {"size": size}
    data = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape") + bytes(1024)
    assert asyncio.run(members([data])) is None


@fuzz
@given(st.binary(max_size=60))
@example(b"[" * 200_000)
@example(b'{"a":' * 100_000)
@example(b'{"a": ' + b"9" * 5_000 + b"}")
def test_a_record_is_whole_or_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("record") / "record"
    path.write_bytes(data)
    found = read_record(str(path))
    assert found is None or isinstance(found, dict)
