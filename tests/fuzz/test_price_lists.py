"""Price lists of operators, in CSV and JSON: listings, each with what is wrong with it, or one refusal of the whole."""

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from placet.adapters.catalog.files import FileCatalog
from placet.adapters.catalog.rows import COLUMNS
from placet.domain.errors import CatalogUnreadable
from placet.ports.catalog import Bounds
from tests.support.fuzzing import fuzz, soon

ROWS_MAX = 20
words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["1e999999999", "nan", "-0", "1e-15", "$5", "2026-01-01T00:00:00Z", "yes", "GiB", '"', "a,b", "²"]),
)
columns = st.lists(st.one_of(st.sampled_from(list(COLUMNS)), st.text(max_size=4)), min_size=1, max_size=6)
tables = st.tuples(columns, st.lists(st.lists(words, max_size=7), max_size=4)).map(
    lambda table: "\n".join(",".join(row) for row in [table[0], *table[1]]).encode("utf-8", "surrogatepass")
)
texts: st.SearchStrategy[Any] = st.recursive(
    st.one_of(words, st.integers(), st.floats(), st.booleans(), st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(
    st.one_of(st.dictionaries(st.one_of(st.sampled_from(list(COLUMNS)), words), texts, max_size=6), texts), max_size=4
).map(lambda rows: json.dumps(rows).encode())


def read(folder: Path, name: str, content: bytes) -> None:
    path = folder / name
    path.write_bytes(content)
    bounds = Bounds(bytes_max=10**6, rows_max=ROWS_MAX)
    with soon():
        try:
            found = asyncio.run(FileCatalog(path, name="list", bounds=bounds).read())
        except CatalogUnreadable:
            return
    assert found is not None
    assert len(found.listings) <= ROWS_MAX
    for listing in found.listings:
        listing.unreadable.encode()
        for number in (listing.price_usd_per_hour, listing.gpu_memory, listing.startup_s):
            assert number is None or abs(number) < 10**16


@fuzz
@given(st.one_of(st.binary(max_size=120), tables))
@example(b"provider\r\n" + b"x\r\n" * 5_000)
@example(b'provider\n"' + b"x" * 200_000)
@example(b"provider\n\x00")
@example(b"provider,provider\na,b")
@example(b"provider,gpu_count\na," + b"9" * 5_000)
def test_a_table_is_read_or_refused(tmp_path_factory: Any, content: bytes) -> None:
    read(tmp_path_factory.mktemp("list"), "list.csv", content)


@fuzz
@given(st.one_of(st.binary(max_size=120), objects))
@example(b"[" * 200_000)
@example(b'[{"provider": ' + b"[" * 900 + b"]" * 900 + b"}]")
@example(b'[{"provider": "\\ud800", "\\ud800": 1}]')
@example(b'[{"provider": "a", "price_usd_per_hour": NaN}]')
@example(b'[{"provider": "a", "price_usd_per_hour": ' + b"9" * 5_000 + b"}]")
def test_a_document_is_read_or_refused(tmp_path_factory: Any, content: bytes) -> None:
    read(tmp_path_factory.mktemp("list"), "list.json", content)
