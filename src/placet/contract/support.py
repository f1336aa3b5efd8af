"""What a valid spec may ask and nothing acts on yet: refused, because ignoring it would break a promise."""

from collections.abc import Iterator

from placet.domain.problems import Problem
from placet.domain.spec import Accelerator, Input, InputKind, Spec


def unsupported(spec: Spec) -> tuple[Problem, ...]:
    """Every part of the spec that has to be refused today."""
    return tuple((*_places(spec), *_secrets(spec), *_inputs("inputs", spec.inputs)))


def recorded_only(spec: Spec) -> tuple[Problem, ...]:
    """Warnings about what is kept and shown and decides nothing."""
    if spec.model is None or spec.resources.accelerator is Accelerator.GPU:
        return ()
    return (
        Problem(
            code="recorded_only",
            field="model",
            what="the model is recorded and decides nothing",
            why="only GPU memory is derived from a model, and no GPU is asked for",
            fix="state `model.task` or `resources.accelerator: gpu` to have it sized; else nothing needs to be done",
        ),
    )


def _places(spec: Spec) -> Iterator[Problem]:
    if spec.resources.nodes > 1:
        yield _refused(
            "resources.nodes", f"{spec.resources.nodes} nodes", "a workload runs on one machine", "set `nodes: 1`"
        )
    if spec.volumes:
        yield _refused(
            "volumes",
            "persistent volumes",
            "no provider here attaches any",
            "pass data as `inputs` and hand back `outputs`",
        )
    if spec.array:
        yield _refused("array", "an array", "one spec is one workload", "submit one workload for each element")


def _secrets(spec: Spec) -> Iterator[Problem]:
    if spec.runtime.registry_secret is not None:
        yield _refused(
            "runtime.registry_secret",
            "a secret for the registry",
            "no provider here hands one on yet",
            "use an image that the engine can pull by what its own client was logged in with",
        )


def _inputs(place: str, inputs: tuple[Input, ...]) -> Iterator[Problem]:
    for index, given in enumerate(inputs):
        scheme = given.source.partition("://")[0]
        if given.kind is InputKind.STORAGE and scheme == "hf":
            yield _refused(
                f"{place}[{index}].source", f"a source at {scheme}://", "there is no client for it yet",
                "use an https:// link that is signed for the time it needs, or copy it to a path",
            )  # fmt: skip


def _refused(field: str, what: str, why: str, fix: str) -> Problem:
    return Problem(code="not_supported_yet", field=field, what=f"{what}: not supported yet", why=why, fix=fix)
