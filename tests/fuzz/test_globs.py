"""Patterns of outputs: they mean what a plain, slow reading says, and no pattern takes long."""

import fnmatch
import re
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from placet.runner.walk import Matcher, matcher
from tests.support.fuzzing import fuzz, soon

marks = st.lists(st.sampled_from(["a", "b", "*", "**", "?", "/", "[ab]", "[!a]", "[", "]", "-", "[b-a]"]), max_size=9)
patterns = marks.map("".join)
paths = st.lists(st.text("ab]-[", min_size=1, max_size=5), min_size=1, max_size=5).map("/".join)


def meant(pattern: str, path: str) -> bool:
    """Slow and plain: every way to share out the names among the parts is tried."""
    parts, names = tuple(pattern.split("/")), tuple(path.split("/"))

    @cache
    def fits(part: int, name: int) -> bool:
        if part == len(parts):
            return name == len(names)
        if parts[part] == "**":
            last = part == len(parts) - 1
            return name < len(names) if last else any(fits(part + 1, at) for at in range(name, len(names) + 1))
        return name < len(names) and one(parts[part], names[name]) and fits(part + 1, name + 1)

    return fits(0, 0)


def one(part: str, name: str) -> bool:
    """The standard library's reading of one name; its set cannot hold what ours refuses, so empty sets fit nothing."""
    return re.fullmatch(fnmatch.translate(part), name) is not None


@fuzz
@given(patterns, paths)
@example("**/a/**", "a/b")
@example("a/**", "a")
@example("*a*b", "aab")
@example("**/**", "a")
def test_a_pattern_means_what_it_says(pattern: str, path: str) -> None:
    _, found = matcher(pattern)
    if found is not None:
        assert found.match(path) == meant(pattern, path)


@fuzz
@given(st.text(max_size=60), st.text(min_size=1, max_size=60))
@example("*a" * 40 + "b", "a" * 250)
@example("/".join(["**", "a"] * 20) + "/b", "/".join("a" * 33))
@example("[" * 500, "x")
@example("[!" + "\\" * 50 + "]*", "x")
@example("[a&&b]||[--]", "x")
def test_any_pattern_is_read_and_matched_soon(pattern: str, path: str) -> None:
    with soon():
        _, found = matcher(pattern)
        assert found is None or isinstance(found, Matcher)
        if found is not None:
            found.match(path)
