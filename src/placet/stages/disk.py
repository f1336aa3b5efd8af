"""How much disk a spec takes, in parts with bounds and reasons. It reads no file: sizes stand in the spec.

The lower bound is what is needed for certain. What is only assumed has none: an image may be there already, weights may
be part of it, and an input on the machine itself is linked to a process, not copied.
"""

from dataclasses import dataclass

from placet.domain.models import ModelHint, ModelUse, Precision
from placet.domain.problems import Problem
from placet.domain.spec import Accelerator, Input, InputKind, RuntimeKind, Spec
from placet.domain.units import GB, format_bytes
from placet.stages.memory.estimate import architecture_of
from placet.stages.memory.values import Part, Span, UnknownModel, span, total

# Unpacked. Images with CUDA and a framework in them have 5 to 20 GB, others a few hundred megabytes.
IMAGE_WITH_GPU, IMAGE = span(0, 10 * GB, 25 * GB), span(0, 1 * GB, 10 * GB)
# Installed requirements; frameworks bring their CUDA libraries along.
ENVIRONMENT_WITH_GPU, ENVIRONMENT = span(0, 8 * GB, 15 * GB), span(0, 1 * GB, 5 * GB)
INPUT_UNKNOWN = span(0, 1 * GB, 100 * GB)
OUTPUTS = span(0, 1 * GB, 20 * GB)
# Bytes per parameter as models are published; QLoRA and the like quantise what they have loaded in 16 bits.
STORED_BYTES = {Precision.FP32: 4.0, Precision.TF32: 4.0, Precision.FP8: 1.0, Precision.INT8: 1.0, Precision.INT4: 0.6}
STORED_ELSE = 2.0
# A checkpoint of full fine-tuning with the state of its optimizer; two at a time while the newer one is written.
CHECKPOINTS_LIKELY, CHECKPOINTS_HIGH = 2, 8


@dataclass(frozen=True, kw_only=True)
class DiskEstimate:
    """What takes room; ``recommended_bytes`` is what is asked of an offer where the spec says nothing."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> Span:
        return total(part.size for part in self.parts)

    @property
    def recommended_bytes(self) -> int:
        return self.size.likely

    @property
    def reason(self) -> str:
        """The parts as a clause."""
        return ", ".join(f"{part.name} {format_bytes(part.size.likely)} ({part.why})" for part in self.parts)


def disk_of(spec: Spec) -> DiskEstimate | None:
    """What is known or assumed; ``None`` where the spec names nothing that takes room."""
    if spec.runtime.kind is RuntimeKind.PROCESS and not spec.inputs and spec.model is None:
        return None
    parts = (*_program(spec), *_inputs(spec), *_weights(spec))
    if not parts:
        return None
    return DiskEstimate(parts=(*parts, *_outputs(spec)))


def disk_too_small(spec: Spec) -> tuple[Problem, ...]:
    """A stated disk that what is known of the spec fills for certain."""
    stated, needed = spec.resources.disk_bytes, disk_of(spec)
    if stated is None or needed is None or needed.size.low <= stated:
        return ()
    sure = [part for part in needed.parts if part.size.low]
    return (
        Problem(
            code="contradiction",
            field="resources.disk_gb",
            what=f"{format_bytes(stated)} of disk is asked for, and at least {format_bytes(needed.size.low)} is needed",
            why=", ".join(f"{part.name} {format_bytes(part.size.low)}" for part in sure),
            fix=f"ask for {-(-needed.recommended_bytes // GB)} or more, or leave it out",
        ),
    )


def _program(spec: Spec) -> tuple[Part, ...]:
    run, gpu = spec.runtime, spec.resources.accelerator is Accelerator.GPU
    match run.kind:
        case RuntimeKind.CONTAINER if run.image_bytes is not None:
            return (Part(name="image", size=span(run.image_bytes), why="as stated"),)
        case RuntimeKind.CONTAINER:
            return (Part(name="image", size=IMAGE_WITH_GPU if gpu else IMAGE, why="an allowance, not stated"),)
        case RuntimeKind.PYTHON if run.requirements:
            size = ENVIRONMENT_WITH_GPU if gpu else ENVIRONMENT
            return (Part(name="environment", size=size, why=f"an allowance for {len(run.requirements)} requirements"),)
    return ()


def _inputs(spec: Spec) -> tuple[Part, ...]:
    return tuple(Part(name=f"input {one.name}", size=_input(spec, one), why=_known(one)) for one in spec.inputs)


def _input(spec: Spec, given: Input) -> Span:
    size = _bytes(given)
    if size is None:
        return INPUT_UNKNOWN
    linked = given.kind in (InputKind.PATH, InputKind.STORAGE) and spec.runtime.kind is not RuntimeKind.CONTAINER
    return span(0 if linked else size, size)


def _bytes(given: Input) -> int | None:
    if given.kind is InputKind.TEXT:
        return len(given.source.encode("utf-8", "surrogatepass"))
    return given.size_bytes


def _known(given: Input) -> str:
    if _bytes(given) is None:
        return "an allowance, not stated"
    return "as stated" if given.kind is InputKind.HTTP else "as it is now"


def _weights(spec: Spec) -> tuple[Part, ...]:
    hint = spec.model
    if hint is None or spec.resources.accelerator is not Accelerator.GPU or _among_inputs(hint, spec.inputs):
        return ()
    stored = _stored_bytes(hint)
    if stored is None:
        return ()
    return (Part(name="weights", size=span(0, stored, 2 * stored), why="unless they are in the image or an input"),)


def _stored_bytes(hint: ModelHint) -> int | None:
    facts = architecture_of(hint)
    if isinstance(facts, UnknownModel):
        return None
    each = STORED_ELSE if hint.precision is None else STORED_BYTES.get(hint.precision, STORED_ELSE)
    return int((facts.parameters + facts.companions) * each)


def _among_inputs(hint: ModelHint, inputs: tuple[Input, ...]) -> bool:
    """The folder that describes the model is read as an input as well, so it is counted there."""
    folder = (hint.folder or "").rstrip("/") + "/"
    return any(
        one.kind is InputKind.PATH and folder.startswith(one.source.removeprefix("file://").rstrip("/") + "/")
        for one in inputs
    )


def _outputs(spec: Spec) -> tuple[Part, ...]:
    hint = spec.model
    if hint is not None and hint.task is ModelUse.FULL_FINE_TUNE:
        stored = _stored_bytes(hint)
        if stored is not None:
            size = span(0, CHECKPOINTS_LIKELY * stored, CHECKPOINTS_HIGH * stored)
            return (Part(name="checkpoints", size=size, why="an allowance: the weights twice"),)
    if spec.outputs or spec.checkpoints is not None:
        return (Part(name="outputs", size=OUTPUTS, why="an allowance"),)
    return ()
