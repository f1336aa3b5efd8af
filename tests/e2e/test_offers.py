"""Offers through the doors: every trap of a price list from a file to its place in quarantine, and what is only listed.

The traps are lines that were seen in real price lists.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.cli.main import run
from placet.contract import api
from tests.support.served import Served, served
from tests.support.waiting import wait_until

HEADER = (
    "provider,instance,region,gpu_name,gpu_count,gpu_memory,gpu_memory_unit,vcpus,memory_gb,price_usd_per_hour,"
    "spot_usd_per_hour"
)
FAIR = """\
cloud,fair1,eu,T4,1,16,gb,4,16,0.50,0.20
cloud,fair2,eu,T4,1,16,gb,8,32,0.60,
cloud,fair3,eu,T4,1,16,gb,16,64,0.70,
cloud,h8,eu,,,,,8,30,0.40,
cloud,bare,eu,T4,1,16,gb,,,0.80,
sums,s4,us,A100,4,320,gb,48,500,16.00,
mixed,s4,us,A100,4,160,gb,48,500,8.00,
mixed,e4,us,A100,8,80,gb,96,900,16.00,
"""
# The row, which price it is about, and why it is not believed.
TRAPS = {
    "spot at 0.00": ("vast,a,eu,H100,1,80,gb,12,120,2.00,0.00", "spot", "price_zero"),
    "placeholder of 700": ("gcp,b,eu,H100,8,640,gb,208,1872,700.00,", "on_demand", "price_placeholder"),
    "placeholder of 700 for one": ("gcp,b1,eu,H100,1,80,gb,26,234,700.00,", "on_demand", "price_placeholder"),
    "no price": ("cloud,c,eu,T4,1,16,gb,4,16,,", "on_demand", "price_missing"),
    "spot is on-demand": ("aws,d,us,H100,8,640,gb,192,2048,55.04,55.04", "spot", "spot_is_on_demand"),
    "A100 of 40 or 80 GB": ("cloud,e,eu,A100,1,,gb,12,120,2.00,", "", "gpu_ambiguous"),
    "memory of one or of all": ("mixed,f,us,A100,2,80,gb,24,240,4.00,", "", "gpu_ambiguous"),
    "a 24 GB card with 49,140 MiB": ("cloud,g,eu,RTX 4090,1,49140,mib,8,64,0.40,", "", "gpu_memory_contradicts"),
    "a host without its GPU, no count": ("gcp,h,eu,T4,0,,gb,8,30,0.40,", "", "host_without_gpu"),
    "a host without its GPU, by its own price": ("cloud,i,eu,T4,1,16,gb,8,30,0.40,", "on_demand", "host_without_gpu"),
    "a host without its GPU, by the price of others": ("gcp,j,eu,T4,1,16,gb,4,15,0.05,", "on_demand", "price_too_low"),
    "a cell that is no number": ("cloud,k,eu,T4,one,16,gb,4,16,0.50,", "", "unreadable"),
}
# The row, and the model and memory of each device that it is read as.
READ = {
    "80 in a field named MiB": ("cloud,m,eu,H100,1,80,mib,26,200,3.00,", "H100-80GB", "the memory said MiB and was GB"),
    "a sum at a cloud that sums": ("sums,n,us,A100,2,160,gb,24,250,8.00,", "A100-80GB", "that of all 2 devices"),
    "a sum that could be of one": ("sums,o,us,A100,2,80,gb,24,250,4.00,", "A100-40GB", "that of all 2 devices"),
}
FIRST_TRAP = 2 + len(FAIR.splitlines())
ROWS = [row for row, *_ in (*TRAPS.values(), *READ.values())]
PRICES = f"{HEADER}\n{FAIR}" + "\n".join(ROWS) + "\n"
CONTAINER = {"runtime": {"type": "container", "image": "registry.example.com/x:1", "command": ["true"]}}
GPU_SPEC = {**CONTAINER, "resources": {"accelerator": "gpu", "minimum_gpu_memory_gb": 80}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("offers")
    (folder / "prices.csv").write_text(PRICES)
    catalog = {
        "demonstration": True,
        "files": [
            {"path": str(folder / "prices.csv"), "name": "prices"},
            {"path": str(folder / "missing.csv"), "name": "missing"},
        ],
        "private": [
            {"provider": "local", "offers": "local-c*", "price_per_hour": "0.25", "compliance": ["hipaa"]},
            {"provider": "lab", "instance": "dgx", "gpu_model": "H100", "gpu_count": 8, "memory": "2TB"},
        ],
    }
    with served(folder / "data", catalog=catalog) as running:
        yield running


def page(server: Served, path: str) -> Any:
    reply = server.http.get(path)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("name", TRAPS)
def test_every_trap_is_set_aside_with_its_row_and_its_reason(server: Served, name: str) -> None:
    line = FIRST_TRAP + list(TRAPS).index(name)
    aside = [
        (one["capacity"], one["reason"])
        for one in page(server, "/v1/offers/quarantined")["items"]
        if (one["source"], one["row"]) == ("prices", f"prices.csv:{line}")
    ]
    assert aside == [TRAPS[name][1:]]


@pytest.mark.parametrize("name", READ)
def test_what_can_be_settled_is_believed_and_told(server: Served, name: str) -> None:
    row, model, what = READ[name]
    provider, instance = row.split(",")[:2]
    [gpu] = [
        one["gpu"] for one in page(server, "/v1/offers")["items"] if one["id"].startswith(f"{provider}/{instance}/")
    ]
    assert gpu["model"] == model
    [told] = [
        one["what"]
        for one in page(server, "/v1/offers/quarantined")["corrected"]
        if (one["source"], one["provider"], one["instance"]) == ("prices", provider, instance)
    ]
    assert what in told


def test_no_trap_is_offered_and_nothing_else_is_missing(server: Served) -> None:
    found = page(server, "/v1/offers?limit=10000")
    listed = {one["id"] for one in found["items"] if one["price_source"] == "prices"}
    fair = {"cloud/fair1/1xt4/eu/on_demand", "cloud/fair1/1xt4/eu/spot", "cloud/h8/eu/on_demand"}
    assert fair <= listed
    # Of the traps about one price, the other price of the row is believed.
    other = {"vast/a/1xh100-80gb/eu/on_demand", "aws/d/8xh100-80gb/us/on_demand"}
    assert other <= listed
    assert len(listed) == len(FAIR.splitlines()) + 1 + len(READ) + len(other)


def test_sources_say_how_old_they_are_and_why_one_fails(server: Served) -> None:
    sources = {one["name"]: one for one in page(server, "/v1/offers?limit=1")["sources"]}
    assert list(sources) == ["local", "private", "prices", "missing", "demonstration"]
    assert {name: one["state"] for name, one in sources.items()} == {
        "local": "fresh", "private": "fresh", "prices": "fresh", "missing": "failing", "demonstration": "stale",
    }  # fmt: skip
    assert "No such file" in sources["missing"]["failure"]
    assert sources["missing"]["fix"] == "check the path and its permissions"
    assert sources["prices"]["quarantined"] == len(TRAPS)
    assert sources["demonstration"]["priced_at"].startswith("2025-03")


def test_what_can_be_dispatched_to_comes_first_and_the_rest_is_marked(server: Served) -> None:
    found = page(server, "/v1/offers?limit=10000")
    items = found["items"]
    assert [one["provider"] for one in items if one["connected"]] == ["local"]
    assert items[0]["connected"]
    prices = [float(one["price_usd_per_hour"]) for one in items[1:]]
    assert prices == sorted(prices)
    stale = {one["price_source"]: one["stale"] for one in items}
    assert stale == {"private": False, "prices": False, "demonstration": True}
    assert len(page(server, "/v1/offers?connected=true")["items"]) == 1
    assert not any(one["connected"] for one in page(server, "/v1/offers?connected=false&limit=5")["items"])
    assert page(server, "/v1/offers?limit=1")["left_out"] == len(items) - 1


def test_own_terms_make_this_machine_reserved_capacity(server: Served) -> None:
    [own] = page(server, "/v1/offers?connected=true")["items"]
    assert (own["capacity_type"], own["price_usd_per_hour"], own["trust"]) == ("reserved", "0.25", "own")
    asked = {"constraints": {"compliance": ["hipaa"], "reserved_first": True, "capacity_types": ["reserved"]}}
    workload_id = server.submit("true", **asked)
    assert server.wait(workload_id)["state"] == "succeeded"
    [attempt] = page(server, f"/v1/workloads/{workload_id}/attempts")["items"]
    assert attempt["placement"]["price_usd_per_hour"] == "0.25"


def test_a_workload_is_never_accepted_for_what_is_only_listed(server: Served) -> None:
    reply = server.http.post("/v1/workloads", json=GPU_SPEC)
    assert reply.status_code == 422
    assert {one["code"] for one in reply.json()["errors"]} == {"no_feasible_offer"}


def test_an_estimate_shows_what_would_fit_if_it_were_connected(server: Served) -> None:
    estimate = api.EstimateView.model_validate(server.http.post("/v1/estimate", json=GPU_SPEC).json())
    assert not estimate.accepted
    assert estimate.plan.ranked == []
    assert estimate.listed[0].offer.provider == "lab"
    assert not any(one.offer.connected for one in estimate.listed)
    assert {one.offer.price_source: one.offer.stale for one in estimate.listed} == {
        "private": False, "prices": False, "demonstration": True,
    }  # fmt: skip


def test_ways_out_name_what_is_only_listed_as_such(server: Served) -> None:
    fits = api.ProblemDetails.model_validate(server.http.post("/v1/workloads", json=GPU_SPEC).json())
    assert [(way.provider, way.changes, way.connected) for way in fits.relaxations] == [("lab", [], False)]
    assert "only listed: connect lab: $0.00/h" in fits.errors[0].fix
    asked = {**GPU_SPEC, "constraints": {"maximum_estimated_cost": 0.01, "providers": {"allowed": ["aws"]}}}
    details = api.ProblemDetails.model_validate(server.http.post("/v1/workloads", json=asked).json())
    assert not any(way.connected for way in details.relaxations)
    changed = [change.field for way in details.relaxations for change in way.changes]
    assert set(changed) == {"constraints.maximum_estimated_cost", "constraints.providers.allowed"}
    estimate = api.EstimateView.model_validate(server.http.post("/v1/estimate", json=asked).json())
    assert estimate.relaxations == details.relaxations


def test_each_offers_fate_is_told(server: Served) -> None:
    match = api.MatchView.model_validate(server.http.post("/v1/offers/match?drops=10000", json=GPU_SPEC).json())
    counts = match.plan.drop_counts
    assert match.fits == 0
    assert match.considered == sum(counts.values()) == len(match.drops)
    assert {"runtime", "gpu_memory", "connected"} <= set(counts)
    assert match.filter_fields["gpu_memory"] == "resources.minimum_gpu_memory_gb"
    first = match.drops[0]
    assert first.filter == "connected"
    assert "only listed in" in first.reason
    unconnected = {one.offer_id for one in match.drops if one.filter == "connected"}
    assert {one.offer.id for one in match.listed} <= unconnected
    assert match.listed[0].parts
    bare = server.http.post("/v1/offers/match", json=GPU_SPEC).json()
    assert (bare["drops"], bare["left_out"]) == ([], match.considered)


@pytest.fixture
def shell(server: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("PLACET_DATA_DIR", str(server.data))
    monkeypatch.setenv("PLACET_CONFIG", str(server.data.parent / "placet.toml"))

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(list(arguments))
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_the_command_shows_source_age_and_what_is_wrong(shell: Any) -> None:
    code, out, err = shell("offers", "--limit", "10000")
    assert code == 0
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0][-2:] == ["source", "age"]
    assert lines[1][-2] == "adapter, own terms: private"
    unsized = next(line for line in lines if "bare" in line[0])
    assert (unsized[3], unsized[4], unsized[5]) == ("1 x T4 16 GB", "-", "-")
    assert not any(line[4] in ("0", "") or line[5] in ("0 B", "") for line in lines)
    assert any(line[-2] == "listed: demonstration" and line[-1].endswith("days (stale)") for line in lines)
    assert "missing: failing" in err
    assert "check the path" in err
    assert "demonstration: stale" in err
    assert json.loads(shell("offers", "--json", "--connected")[1])["items"][0]["provider"] == "local"


def test_the_command_lists_what_was_set_aside(shell: Any) -> None:
    code, out, err = shell("offers", "--quarantined", "--limit", "3")
    assert code == 0
    assert out.splitlines()[1].startswith(f"prices\tprices.csv:{FIRST_TRAP}\tvast\ta\t1 H100\tspot\t0.00\tprice_zero\t")
    assert "believed after a correction: 1 of prices: the memory said MiB and was GB" in out
    assert "more lines; --limit shows them" in err
    assert json.loads(shell("offers", "--quarantined", "--json")[1])["items"][0]["reason"] == "price_zero"


def test_the_command_holds_offers_against_a_spec(shell: Any, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(GPU_SPEC))
    code, out, _ = shell("offers", "--for", str(file), "--why-not", "--limit", "5")
    assert code == 2
    assert "0 of" in out
    assert "only listed, would fit" in out
    assert "\nconnected\t" in out
    assert "resources.minimum_gpu_memory_gb" in out
    assert "no adapter here offers it" in out
    assert json.loads(shell("offers", "--for", str(file), "--json")[1])["considered"] > 300
    assert shell("offers", "--why-not")[0] == 2
    assert "only listed, would fit" in shell("estimate", str(file))[1]


def test_lists_of_a_library_and_files_that_change_are_read_in_the_background(tmp_path: Path) -> None:
    lists, prices = tmp_path / "lists", tmp_path / "prices.csv"
    lists.mkdir()
    (lists / "aws.csv").write_text(
        "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,"
        "cpu_arch,provider_data\np5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}\n"
    )
    prices.write_text("provider,instance,vcpus,price_usd_per_hour\ncloud,m,4,0.20\n")
    catalog = {
        "gpuhunt": {"enabled": True, "folder": str(lists)},
        "files": [{"path": str(prices), "refresh_seconds": 0.1}],
    }
    with served(tmp_path / "data", catalog=catalog) as server:

        def listed() -> dict[str, float]:
            items = page(server, "/v1/offers?connected=false")["items"]
            return {one["id"]: float(one["price_usd_per_hour"]) for one in items}

        aws = "aws/p5.48xlarge/8xh100-80gb/us-east-1/on_demand"
        wait_until(lambda: listed() == {aws: 55.04, "cloud/m/on_demand": 0.20}, 30, "both lists to be read")
        prices.write_text("provider,instance,vcpus,price_usd_per_hour\ncloud,m,4,0.25\n")
        wait_until(lambda: listed()["cloud/m/on_demand"] == 0.25, 10, "the file to be read again")
        prices.write_text("nonsense\n")
        wait_until(lambda: page(server, "/v1/offers")["sources"][1]["failure"], 10, "the file to be refused")
        assert listed()["cloud/m/on_demand"] == 0.25
        assert all(one["stale"] for one in page(server, "/v1/offers")["items"] if one["price_source"] == "prices.csv")
