"""Where a spec contradicts itself or the clock, whatever there is to run on. Without any it may still find nothing."""

from decimal import Decimal

from placet.domain.problems import Problem
from placet.domain.spec import CapacityType, Repeat, Spec
from placet.domain.units import SECOND_MS, format_instant


def contradictions(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    """Every one of them, each with the smallest change that helps."""
    return (*_deadline(spec, now_ms), *_selections(spec), *_repeat(spec), *_times(spec, now_ms))


def _deadline(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    deadline_ms = spec.constraints.deadline_ms
    if deadline_ms is None:
        return ()
    if deadline_ms <= now_ms:
        return (
            Problem(
                code="deadline_passed",
                field="constraints.deadline",
                what=f"the deadline {format_instant(deadline_ms)} has passed",
                why="nothing can finish in the past",
                fix="give a later deadline, for example +2h",
            ),
        )
    return ()


def _selections(spec: Spec) -> tuple[Problem, ...]:
    found = []
    for name, chosen in (("providers", spec.constraints.providers), ("regions", spec.constraints.regions)):
        both = sorted(set(chosen.allowed) & set(chosen.denied))
        if both:
            found.append(
                Problem(
                    code="contradiction",
                    field=f"constraints.{name}",
                    what=f"{', '.join(both)} is both allowed and denied",
                    why="a name cannot be both",
                    fix=f"remove it from constraints.{name}.allowed or from constraints.{name}.denied",
                )
            )
    return tuple(found)


def _repeat(spec: Spec) -> tuple[Problem, ...]:
    found = []
    types = spec.constraints.capacity_types
    if spec.repeat is Repeat.AT_MOST_ONCE and types and set(types) <= {CapacityType.SPOT}:
        found.append(
            Problem(
                code="contradiction",
                field="constraints.capacity_types",
                what="at_most_once on capacity that may be taken back",
                why="a preempted program would have to be run again to finish",
                fix="allow on_demand or reserved capacity, or declare repeat: safe or resumable",
            )
        )
    if spec.repeat is Repeat.AT_MOST_ONCE and spec.retry.attempts > 1:
        found.append(
            Problem(
                code="contradiction",
                field="retry.attempts",
                what=f"{spec.retry.attempts} attempts of a program that may run at most once",
                why="a second attempt would run it twice",
                fix="set retry.attempts to 1, or declare repeat: safe or resumable",
            )
        )
    return tuple(found)


def _times(spec: Spec, now_ms: int) -> tuple[Problem, ...]:
    limit = spec.constraints.runtime_s
    deadline_ms = spec.constraints.deadline_ms
    if limit is not None and limit <= Decimal(0):
        return (
            Problem(
                code="out_of_range",
                field="constraints.maximum_runtime_seconds",
                what="a run time of zero",
                why="every program needs some time",
                fix="give a positive limit, or leave it out",
            ),
        )
    start_s = spec.constraints.start_within_s
    if deadline_ms is not None and start_s is not None and now_ms + int(start_s * SECOND_MS) > deadline_ms > now_ms:
        return (
            Problem(
                code="contradiction",
                field="constraints.start_within_seconds",
                what="it may start after its deadline",
                why="start_within_seconds ends later than the deadline",
                fix="lower constraints.start_within_seconds or give a later deadline",
            ),
        )
    return ()
