"""What is deleted at an engine by itself, and what never is."""

from placet.adapters.providers.container import names
from placet.adapters.providers.container.tidying import DAY_MS, overdue

NOW_MS = 1_000 * DAY_MS


def mark(key: str, workload: str, days_ago: float, which: names.Mark = names.Mark.GONE) -> dict[str, str]:
    return {
        names.KEY: key,
        names.KIND: names.Kind.MARK.value,
        names.MARK: which.value,
        names.WORKLOAD: workload,
        names.CREATED: str(int(NOW_MS - days_ago * DAY_MS)),
    }


def shared(workload: str) -> dict[str, str]:
    return {names.KIND: names.Kind.CHECKPOINTS.value, names.WORKLOAD: workload, names.DEPLOYMENT: "deployment"}


def attempt(key: str, workload: str) -> dict[str, str]:
    return {names.KIND: names.Kind.ATTEMPT.value, names.KEY: key, names.WORKLOAD: workload}


def test_a_used_up_name_is_forgotten_after_a_day() -> None:
    noted = [mark("a", "wl_a", 0.9), mark("b", "wl_b", 1.1), {**mark("c", "wl_c", 5), names.CREATED: "0"}]
    assert overdue(noted, [], [], 30, NOW_MS) == ["b.gone"], "not the young one, nor the one of unknown age"


def test_nothing_of_an_attempt_that_is_there_is_touched() -> None:
    noted = [mark("a", "wl_a", 5, names.Mark.STOPPED)]
    assert overdue(noted, [], [attempt("a", "wl_a")], 30, NOW_MS) == []


def test_checkpoints_are_kept_since_the_last_attempt_and_so_is_what_tells_when_that_was() -> None:
    volume = names.checkpoints("deployment", "wl_a")
    noted = [mark("a1", "wl_a", 40), mark("a2", "wl_a", 29)]
    assert overdue(noted, [shared("wl_a")], [], 30, NOW_MS) == []
    noted = [mark("a1", "wl_a", 50), mark("a2", "wl_a", 31)]
    assert overdue(noted, [shared("wl_a")], [attempt("a3", "wl_a")], 30, NOW_MS) == [], "another attempt runs"
    assert overdue(noted, [shared("wl_a")], [], 30, NOW_MS) == [volume, "a1.gone", "a2.gone"]
    assert overdue([], [shared("wl_a")], [], 30, NOW_MS) == [], "nobody knows how old they are"
