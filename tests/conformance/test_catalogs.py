"""Every source of listings keeps the contract; what files have besides."""

import asyncio
import importlib.util
import json
import os
from decimal import Decimal
from pathlib import Path

import gpuhunt
import pytest

from placet.adapters.catalog.files import DemonstrationCatalog, FileCatalog, ListedCapacity
from placet.adapters.catalog.gpuhunt import GpuhuntCatalog
from placet.domain.errors import CatalogUnreadable
from placet.domain.gpus import recognise
from placet.domain.listings import Listing
from placet.domain.offers import Trust
from placet.ports.catalog import Bounds, Catalog
from placet.stages.listing import normalise
from placet.testing.conformance.catalog import CatalogContract, FallibleCatalogContract, listings_of
from tests.support.waiting import wait_until_async

HEADER = "provider,instance,region,gpu_name,gpu_count,gpu_memory,vcpus,memory_gb,price_usd_per_hour,spot_usd_per_hour"
ROWS = "cloud,big,eu,A100 (80 GB),1,80,12,120,2.00,0.80\ncloud,small,eu,T4,1,16,4,16,0.50,\n"


def csv_file(folder: Path, text: str = f"{HEADER}\n{ROWS}", **bounds: int) -> FileCatalog:
    path = folder / "prices.csv"
    path.write_text(text)
    return FileCatalog(path, name="prices", bounds=Bounds(**bounds))


def json_file(folder: Path, rows: object, **bounds: int) -> FileCatalog:
    path = folder / "prices.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    return FileCatalog(path, name="prices", bounds=Bounds(**bounds))


JSON_ROWS = [
    {
        "provider": "cloud",
        "instance": "big",
        "gpu_name": "L4",
        "gpu_count": 1,
        "price_usd_per_hour": 0.7,
        "trust": "own",
    },
    {"provider": "cloud", "instance": "two", "vcpus": 4, "price_usd_per_hour": "0.1", "runtimes": ["container"]},
]

GPUHUNT_HEADER = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,"
    "provider_data"
)
AWS_ROWS = """\
p4d.24xlarge,eu-central-1,32.77,96,1152.0,8,A100,40.0,False,,nvidia,,x86,{}
p4d.24xlarge,eu-central-1,9.83,96,1152.0,8,A100,40.0,True,,nvidia,,x86,{}
m5.large,eu-west-2,0.111,2,8.0,0,,,False,,,,x86,{}
"""


class TestCsvFile(FallibleCatalogContract):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return csv_file(tmp_path)

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Catalog:
        return FileCatalog(tmp_path / "missing.csv", name="prices", bounds=Bounds())

    @pytest.fixture
    def endless(self, tmp_path: Path) -> Catalog:
        return csv_file(tmp_path, rows_max=1)


class TestJsonFile(FallibleCatalogContract):
    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return json_file(tmp_path, JSON_ROWS)

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Catalog:
        return json_file(tmp_path, "{")

    @pytest.fixture
    def endless(self, tmp_path: Path) -> Catalog:
        return json_file(tmp_path, JSON_ROWS, bytes_max=20)


def gpuhunt_lists(folder: Path, **lists: str) -> Path:
    """A folder of lists as gpuhunt publishes them."""
    for name, rows in lists.items():
        (folder / f"{name}.csv").write_text(f"{GPUHUNT_HEADER}\n{rows}")
    return folder


def gpuhunt_from(folder: Path, **bounds: int) -> GpuhuntCatalog:
    return GpuhuntCatalog(folder=folder, within_s=20, bounds=Bounds(**bounds))


class TestGpuhunt(FallibleCatalogContract):
    """Against the library itself, reading lists of its own format from a folder."""

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Catalog:
        return gpuhunt_from(gpuhunt_lists(tmp_path, aws=AWS_ROWS))

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Catalog:
        return gpuhunt_from(tmp_path)

    @pytest.fixture
    def endless(self, tmp_path: Path) -> Catalog:
        return gpuhunt_from(gpuhunt_lists(tmp_path, aws=AWS_ROWS), rows_max=1)


class TestDemonstration(CatalogContract):
    @pytest.fixture
    def catalog(self) -> Catalog:
        return DemonstrationCatalog()


class TestListedCapacity(CatalogContract):
    @pytest.fixture
    def catalog(self) -> Catalog:
        ours = Listing(
            source="private", provider="lab", machine="dgx", gpu_name="H100", gpu_count=8, private=True, line=1,
            observed_ms=1,
        )  # fmt: skip
        return ListedCapacity("private", (ours,))


async def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    catalog = csv_file(tmp_path)
    first = await catalog.read()
    assert first is not None
    assert await catalog.read(first.version) is None
    csv_file(tmp_path, f"{HEADER}\n{ROWS}cloud,third,eu,L4,1,24,4,16,0.70,\n")
    second = await catalog.read(first.version)
    assert second is not None
    assert len(second.listings) == 3


async def test_a_json_file_keeps_numbers_exactly(tmp_path: Path) -> None:
    catalog = json_file(tmp_path, '[{"provider": "c", "vcpus": 2, "price_usd_per_hour": 0.10}]')
    [listing] = await listings_of(catalog)
    assert listing.price_usd_per_hour == Decimal("0.10")
    listed = await listings_of(json_file(tmp_path, JSON_ROWS))
    assert [one.trust for one in listed] == [Trust.OWN, Trust.UNKNOWN]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("instance,region\na,b\n", "provider"),
        ("provider,colour\na,b\n", "colour"),
        ("provider,provider\na,b\n", "each column once"),
        ('provider,instance\na,"b\n', "unexpected end"),
        ("", "provider"),
    ],
)
async def test_a_file_that_is_no_such_list_is_refused_whole(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(CatalogUnreadable, match=told):
        await csv_file(tmp_path, text).read()


@pytest.mark.parametrize("text", ["{}", "1", "[" * 100_000, '"\\ud800"', "nonsense"])
async def test_json_that_is_no_such_list_is_refused_whole(tmp_path: Path, text: str) -> None:
    with pytest.raises(CatalogUnreadable):
        await json_file(tmp_path, text).read()


async def test_a_pipe_is_no_file_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(CatalogUnreadable, match="regular file"):
        await FileCatalog(tmp_path / "pipe.csv", name="pipe", bounds=Bounds()).read()


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ("cloud,big,eu,A100,one,80,12,120,2.00,", "gpu_count"),
        ("cloud,big,eu,A100,1.5,80,12,120,2.00,", "whole"),
        ("cloud,big,eu,A100,1,80,12,120,1e999999999,", "price_usd_per_hour"),
        ("cloud,big,eu,A100,1,80,12,120,NaN,", "price_usd_per_hour"),
        ("cloud,big,eu,A100,1,80,12,120,2.00,,more", "no column"),
    ],
)
async def test_a_row_that_cannot_be_read_costs_itself_alone(tmp_path: Path, cells: str, told: str) -> None:
    found = await listings_of(csv_file(tmp_path, f"{HEADER}\n{cells}\n{ROWS}"))
    assert told in found[0].unreadable
    made = normalise(found)
    assert [(aside.listing.line, aside.doubt) for aside in made.quarantined] == [(2, "unreadable")]
    assert len(made.offers) == 3


@pytest.mark.parametrize(
    "moment",
    ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-12-01", "2026-12-01T00:00:00", "+2h", "soon"],
)
async def test_a_row_of_no_possible_moment_costs_itself_alone(tmp_path: Path, moment: str) -> None:
    rows = f"cloud,big,eu,A100,1,80,12,120,2.00,,{moment}\nother,big,eu,A100,1,80,12,120,2.00,,2026-11-30T00:00:00Z\n"
    found = await listings_of(csv_file(tmp_path, f"{HEADER},observed_at\n{rows}"))
    assert ["observed_at" in one.unreadable for one in found] == [True, False]
    assert [(aside.listing.line, aside.doubt) for aside in normalise(found).quarantined] == [(2, "unreadable")]


@pytest.mark.parametrize("entry", ["1", "null", '"text"', "true", "[]", "[{}]"])
async def test_a_json_entry_that_is_no_row_costs_itself_alone(tmp_path: Path, entry: str) -> None:
    rows = json.dumps(JSON_ROWS)
    found = await listings_of(json_file(tmp_path, f"[{entry}, {rows.removeprefix('[')}"))
    assert "no object" in found[0].unreadable
    made = normalise(found)
    assert [(aside.listing.line, aside.doubt) for aside in made.quarantined] == [(1, "unreadable")]
    assert len(made.offers) == len(normalise(await listings_of(json_file(tmp_path, rows))).offers)


async def test_gpuhunt_prices_of_one_machine_are_one_listing(tmp_path: Path) -> None:
    [large, small] = await listings_of(gpuhunt_from(gpuhunt_lists(tmp_path, aws=AWS_ROWS)))
    assert (large.price_usd_per_hour, large.spot_usd_per_hour) == (Decimal("32.77"), Decimal("9.83"))
    assert (large.jurisdiction, large.trust, large.gpu_memory) == ("EU", Trust.COMPANY, Decimal("40.0"))
    assert (small.jurisdiction, small.gpu_name, small.price_usd_per_hour) == ("", None, Decimal("0.111"))


# The library's figure for the first is an announcement (the board has 256 GB), the second is sold nowhere it lists.
DISAGREED = frozenset({"MI325X", "MI308X"})


def test_gpus_that_gpuhunt_knows_are_known_here_with_the_same_memory() -> None:
    known = [*gpuhunt.KNOWN_NVIDIA_GPUS, *gpuhunt.KNOWN_AMD_GPUS]
    lacking = {
        gpu.name for gpu in known if not any(model.memory_gb == gpu.memory for model in recognise(gpu.name).models)
    }
    assert len(known) > 60
    assert lacking == DISAGREED


async def test_gpuhunt_keeps_a_list_that_cannot_be_had_and_says_so(tmp_path: Path) -> None:
    gpuhunt_lists(tmp_path, aws=AWS_ROWS, gcp="n1,us-central1-a,0.4,8,52.0,1,T4,16.0,True,,nvidia,,x86,{}\n")
    catalog = GpuhuntCatalog(providers=["aws", "gcp"], folder=tmp_path, within_s=20, bounds=Bounds())
    first = await catalog.read()
    (tmp_path / "gcp.csv").unlink()
    gpuhunt_lists(tmp_path, aws=AWS_ROWS.replace("32.77", "33.00") + "broken,eu,x,1,1,0,,,False,,,,x86,{}\n")
    second = await catalog.read()
    assert first is not None
    assert second is not None
    assert first.warnings == ()
    assert [listing.provider for listing in second.listings] == ["aws", "aws", "gcp"]
    assert [str(listing.price_usd_per_hour) for listing in second.listings[:2]] == ["33.0", "0.111"]
    gcp, malformed = second.warnings
    assert "gcp.csv" in gcp
    assert "is kept" in gcp
    assert "malformed row" in malformed
    spot_only = second.listings[2]
    assert (spot_only.price_usd_per_hour, spot_only.spot_usd_per_hour) == (None, Decimal("0.4"))
    assert [offer.id for offer in normalise([spot_only]).offers] == ["gcp/n1/1xt4/us-central1-a/spot"]


async def test_gpuhunt_without_the_library_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CatalogUnreadable, match="not installed") as told:
        await gpuhunt_from(tmp_path).read()
    assert told.value.fix == "pip install '.[gpuhunt]'"


async def test_a_reader_that_hangs_is_gone_when_its_reading_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "aws.csv")  # the library opens it and waits for a writer that never writes
    reading = asyncio.ensure_future(gpuhunt_from(tmp_path).read())
    writer = await wait_until_async(lambda: writing_end(tmp_path / "aws.csv"), 20, "the library to open its list")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(BrokenPipeError):
        os.write(writer, b"x")
    os.close(writer)


def writing_end(pipe: Path) -> int | None:
    """A descriptor to write to a pipe with, once somebody reads it."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
