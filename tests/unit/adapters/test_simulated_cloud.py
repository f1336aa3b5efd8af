"""The simulated cloud's file: shared, written anew, and readable after the worst."""

from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.providers.simulated import cloud as cloud_module
from placet.adapters.providers.simulated.behaviour import Behaviour, Order, State, look
from placet.adapters.providers.simulated.cloud import PAGE, Cloud

T = 1_800_000_000_000


class Now:
    """The time, as the test says."""

    def __init__(self) -> None:
        self.ms = T

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def now() -> Now:
    return Now()


def opened(folder: Path, now: Now) -> Cloud:
    made = Cloud(folder, now)
    made.open()
    return made


def order(key: str, nonce: str = "n", **how: object) -> Order:
    return Order(
        key=key,
        native_id=f"sim-{key}",
        deployment="d",
        workload_id=f"wl_{key}",
        epoch=1,
        nonce=nonce,
        offer_id="o",
        region="r",
        price_usd_per_hour=Decimal(1),
        quantum_s=1,
        asked_ms=T,
        behaviour=Behaviour(**how),  # type: ignore[arg-type]  # the fields of Behaviour, by name
    )


def test_what_one_asks_the_other_sees(tmp_path: Path, now: Now) -> None:
    first, second = opened(tmp_path, now), opened(tmp_path, now)
    assert first.create(order("a"), 9).good
    now.ms = T + 5000
    assert second.permit("a", "n", True, "").good
    assert first.stop("a").good
    for each in (first, second):
        machine = each.machines()["a"]
        assert (machine.granted_ms, machine.stops_ms) == ((T + 5000,), (T + 5000,))
    later = opened(tmp_path, now)
    assert later.machines() == first.machines()


def test_a_name_is_used_once(tmp_path: Path, now: Now) -> None:
    cloud = opened(tmp_path, now)
    assert cloud.create(order("a"), 9).machine == cloud.create(order("a"), 9).machine
    assert (cloud.create(order("a", nonce="other"), 9).status, cloud.create(order("a", nonce="other"), 9).text) == (
        409,
        cloud_module.NAME_TAKEN,
    )
    cloud.delete("a")
    assert cloud.create(order("a"), 9).text == cloud_module.NAME_SPENT
    cloud.stop("b")
    assert cloud.create(order("b"), 9).text == cloud_module.NAME_SPENT


def test_there_are_only_so_many_machines(tmp_path: Path, now: Now) -> None:
    cloud = opened(tmp_path, now)
    assert [cloud.create(order(key), 2).status for key in "abc"] == [200, 200, 503]
    cloud.delete("a")
    assert cloud.create(order("c"), 2).good


def test_a_list_comes_in_pages_and_says_how_much_there_is(tmp_path: Path, now: Now) -> None:
    cloud = opened(tmp_path, now)
    keys = [f"{number:03}" for number in range(2 * PAGE + 1)]
    for key in keys:
        cloud.create(order(key), 1000)
    seen, after = [], ""
    while after is not None:
        page = cloud.page(after, deployment="d")
        seen += [machine.order.key for machine in page.machines]
        assert page.total == len(keys)
        after = page.after
    assert seen == keys
    assert cloud.page(deployment="another").total == 0
    assert [machine.order.key for machine in cloud.page(name="007").machines] == ["007"]


def test_half_a_line_is_survived(tmp_path: Path, now: Now) -> None:
    cloud = opened(tmp_path, now)
    cloud.create(order("a"), 9)
    with (tmp_path / "journal").open("ab") as journal:
        journal.write(b'{"what":"order","key":"half')
    again = opened(tmp_path, now)
    assert set(again.machines()) == {"a"}
    assert again.create(order("b"), 9).good
    assert set(cloud.machines()) == set(opened(tmp_path, now).machines()) == {"a", "b"}


def test_the_file_is_bounded_and_the_others_follow(tmp_path: Path, now: Now, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_module, "JOURNAL_BYTES", 20_000)
    cloud, other = opened(tmp_path, now), opened(tmp_path, now)
    cloud.create(order("kept"), 1000)
    now.ms += 3000
    cloud.permit("kept", "n", True, "")
    for number in range(300):
        key = f"gone-{number}"
        cloud.create(order(key), 1000)
        cloud.delete(key)
        assert (tmp_path / "journal").stat().st_size < 60_000
    assert other.machines()["kept"].granted_ms == (T + 3000,)
    assert look(other.machines()["kept"], now.ms).state is State.RUNNING
    assert other.create(order("gone-0"), 1000).text == cloud_module.NAME_SPENT
    now.ms += cloud_module.KEPT_MS + 1
    for number in range(300):
        cloud.create(order(f"more-{number}"), 1000)
        cloud.delete(f"more-{number}")
    assert other.create(order("gone-0"), 1000).good, "a name is not remembered for ever"


def test_only_its_owner_can_read_it(tmp_path: Path, now: Now) -> None:
    cloud = opened(tmp_path / "cloud", now)
    cloud.create(order("a"), 9)
    assert (tmp_path / "cloud").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "cloud").iterdir()} == {0o600}
