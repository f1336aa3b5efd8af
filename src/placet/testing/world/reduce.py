"""A failing world made small: kinds of fault and workloads are taken away for as long as it still fails."""

from collections.abc import Iterator
from dataclasses import replace

from placet.testing.world.options import Options
from placet.testing.world.simulate import Report, simulate


def reduced(report: Report, *, tries: int = 100) -> Report:
    """The smallest world found in which the same rule is still violated."""
    rule = report.violations[0].rule
    left = tries
    shrunk = True
    while shrunk and left > 0:
        shrunk = False
        for options in _smaller(report.options):
            left -= 1
            smaller = simulate(options)
            if any(violation.rule == rule for violation in smaller.violations):
                report, shrunk = smaller, True
                break
            if left <= 0:
                break
    return report


def _smaller(options: Options) -> Iterator[Options]:
    if len(options.wishes) > 1:
        for wish in options.wishes:
            yield options.without_wish(wish.name)
    if options.workers > 1:
        yield replace(options, workers=1)
    for name in options.faults:
        yield options.without_fault(name)
