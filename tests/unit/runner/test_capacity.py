"""Reservations: all or nothing, and what was taken comes back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from placet.runner.capacity import Capacity
from placet.runner.launch import Reserve


def capacity() -> Capacity:
    made = Capacity()
    gpus: list[dict[str, Any]] = [
        {"index": 0, "model": "A", "memory_bytes": 24},
        {"index": 1, "model": "B", "memory_bytes": 80},
    ]
    made.configure({"slots": 3, "cpu_cores": 4, "memory_bytes": 100, "gpus": gpus})
    return made


def test_each_shortage_has_its_sentence() -> None:
    made = capacity()
    assert made.reserve("a", Reserve({"cpu_cores": 3})) is None
    assert "cores" in (made.reserve("b", Reserve({"cpu_cores": 2})) or "")
    assert "memory" in (made.reserve("b", Reserve({"memory_bytes": 101})) or "")
    assert "devices" in (made.reserve("b", Reserve({"gpu_count": 3})) or "")
    assert made.reserve("b", Reserve({})) is None
    assert made.reserve("c", Reserve({})) is None
    assert "slots" in (made.reserve("d", Reserve({})) or "")


def test_devices_are_chosen_by_model_and_memory() -> None:
    made = capacity()
    assert made.reserve("a", Reserve({"gpu_count": 1, "gpu_memory_bytes": 40})) is None
    assert [device.index for device in made.devices_of("a")] == [1]
    assert made.reserve("b", Reserve({"gpu_count": 1, "gpu_model": "B"})) is not None
    assert made.reserve("b", Reserve({"gpu_count": 1, "gpu_model": "A"})) is None
    assert made.document()["gpus_free"] == []
    made.give_back("a")
    made.give_back("a")
    assert made.document()["gpus_free"] == [1]


RESERVES = st.fixed_dictionaries(
    {"cpu_cores": st.floats(0, 5), "memory_bytes": st.integers(0, 120), "gpu_count": st.integers(0, 3)}
)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), RESERVES), max_size=30))
def test_never_more_than_there_is_and_all_of_it_comes_back(steps: list[tuple[int, bool, dict[str, Any]]]) -> None:
    made = capacity()
    before = made.document()
    held: dict[str, Reserve] = {}
    for number, take, wanted in steps:
        key = str(number)
        if take and key not in held:
            reserve = Reserve(wanted)
            if made.reserve(key, reserve) is None:
                held[key] = reserve
        elif not take:
            made.give_back(key)
            held.pop(key, None)
        assert sum(each.cpu_cores for each in held.values()) <= 4 + 1e-6
        assert sum(each.memory_bytes for each in held.values()) <= 100
        devices = [device.index for key in held for device in made.devices_of(key)]
        assert len(devices) == len(set(devices))
    for key in list(held):
        made.give_back(key)
    assert made.document() == before
