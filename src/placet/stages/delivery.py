"""Declared outputs against found files: complete, partial or missing. It moves no bytes."""

from collections.abc import Set
from dataclasses import dataclass

from placet.domain.allocations import FoundOutput, Observation
from placet.domain.failures import Cause
from placet.domain.records import Workload
from placet.domain.spec import Output, Spec
from placet.domain.states import DeliveryState


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What is there of what was declared. ``missing_required`` decides over success.

    ``left_out`` was meant by a declared output and cannot be one, each with its reason: what lacks it is not complete.
    """

    state: DeliveryState
    found: tuple[FoundOutput, ...]
    missing: tuple[str, ...]
    missing_required: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def kept(workload: Workload) -> bool:
    """Is what an ended workload computed kept for a while, because it was not delivered and may still be?"""
    failure = workload.failure
    if not (workload.final and workload.compute_done and failure is not None):
        return False
    lacking = workload.delivery in (DeliveryState.MISSING, DeliveryState.PARTIAL)
    return lacking and failure.cause in (Cause.DELIVERY, Cause.DEADLINE, Cause.CANCELLED)


def deliver(spec: Spec, seen: Observation) -> Delivery:
    """Match the collected files of an ended attempt with the spec's outputs, by name."""
    names = {found.name for found in seen.outputs}
    declared = {output.name for output in spec.outputs}
    missing = tuple(output.name for output in spec.outputs if output.name not in names)
    state = state_of(spec.outputs, names)
    return Delivery(
        state=DeliveryState.PARTIAL if seen.skipped and state is DeliveryState.COMPLETE else state,
        left_out=seen.skipped,
        found=tuple(found for found in seen.outputs if found.name in declared),
        missing=missing,
        missing_required=tuple(output.name for output in spec.outputs if output.required and output.name in missing),
    )


def state_of(outputs: tuple[Output, ...], names: Set[str]) -> DeliveryState:
    """How much of what was declared is there, by the names that are."""
    if not outputs:
        return DeliveryState.NONE
    wanted = {output.name for output in outputs}
    if wanted <= names:
        return DeliveryState.COMPLETE
    return DeliveryState.PARTIAL if wanted & names else DeliveryState.MISSING
