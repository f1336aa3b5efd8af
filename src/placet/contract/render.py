"""From the domain's value back to a document: snake_case, plain units, everything that is stated or has a default."""

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

from placet.domain.models import Architecture, ModelHint
from placet.domain.spec import (
    ArrayItem,
    Constraints,
    Input,
    InputKind,
    Resources,
    RetryPolicy,
    Runtime,
    Selection,
    Spec,
)
from placet.domain.units import GB, format_instant

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Document: TypeAlias = dict[str, Json]


def render(spec: Spec) -> Document:
    """A document that is read back as an equal spec."""
    return _stated(
        version=spec.version,
        name=spec.name,
        runtime=_runtime(spec.runtime),
        resources=_resources(spec.resources),
        constraints=_constraints(spec.constraints),
        model=_model(spec.model),
        inputs=[_input(given) for given in spec.inputs],
        outputs=[
            _stated(name=given.name, path=given.path, required=given.required, media_type=given.media_type)
            for given in spec.outputs
        ],
        environment=_mapping(spec.environment),
        secrets=_mapping(spec.secrets),
        objective=spec.objective.value,
        retry=_retry(spec.retry),
        repeat=spec.repeat.value,
        earlier_artifacts=spec.earlier_artifacts.value,
        checkpoints=spec.checkpoints,
        volumes=[
            _stated(name=given.name, path=given.path, size_gb=_gigabytes(given.size_bytes)) for given in spec.volumes
        ],
        array=[_array_item(given) for given in spec.array],
        labels=_mapping(spec.labels),
        metadata=_mapping(spec.metadata),
        log_limit=None if spec.log_bytes is None else f"{spec.log_bytes}B",
        stop_grace_seconds=_number(spec.stop_grace_s),
        provider_options={name: json.loads(stated) for name, stated in spec.provider_options},
    )


def _stated(**values: Json) -> Document:
    """What is neither ``None`` nor empty; an empty mapping may still say something inside a list."""
    return {name: value for name, value in values.items() if value is not None and value not in ([], {})}


def _word(value: StrEnum | None) -> str | None:
    return None if value is None else value.value


def _texts(values: Iterable[str]) -> list[Json]:
    return [str(value) for value in values]


def _mapping(pairs: Iterable[tuple[str, str]]) -> Document:
    return dict(pairs)


def _number(amount: Decimal | None) -> Json:
    """A JSON number when it carries the amount exactly, text otherwise."""
    if amount is None:
        return None
    if amount == amount.to_integral_value():
        return int(amount)
    near = float(amount)
    return near if Decimal(repr(near)) == amount else format(amount, "f")


def _gigabytes(amount: int | None) -> Json:
    return None if amount is None else _number(Decimal(amount) / GB)


def _runtime(runtime: Runtime) -> Document:
    document: Mapping[str, Json] = _stated(
        image=runtime.image,
        image_size_gb=_gigabytes(runtime.image_bytes),
        registry_secret=runtime.registry_secret,
        command=_texts(runtime.command),
        working_directory=runtime.working_directory,
        script=runtime.script,
        script_text=runtime.script_text,
        arguments=_texts(runtime.arguments),
        requirements=_texts(runtime.requirements),
        python_version=runtime.python_version,
    )
    # An empty entrypoint is not the same as none: it takes away the image's own.
    entrypoint: Document = {} if runtime.entrypoint is None else {"entrypoint": _texts(runtime.entrypoint)}
    return {"type": runtime.kind.value, **document, **entrypoint}


def _resources(resources: Resources) -> Document:
    return _stated(
        accelerator=resources.accelerator.value,
        minimum_gpu_memory_gb=_gigabytes(resources.gpu_memory_bytes),
        gpu_count=resources.gpu_count or None,
        gpu_families=_texts(resources.gpu_families),
        gpu_models=_texts(resources.gpu_models),
        minimum_compute_capability=resources.compute_capability,
        gpu_features=_texts(resources.gpu_features),
        minimum_driver_version=resources.driver_version,
        minimum_cuda_version=resources.cuda_version,
        cpu_cores=_number(resources.cpu_cores),
        system_memory_gb=_gigabytes(resources.memory_bytes),
        disk_gb=_gigabytes(resources.disk_bytes),
        processes=resources.processes,
        nodes=resources.nodes,
    )


def _selection(selection: Selection) -> Document:
    return _stated(
        allowed=_texts(selection.allowed), denied=_texts(selection.denied), preferred=_texts(selection.preferred)
    )


def _constraints(constraints: Constraints) -> Document:
    return _stated(
        maximum_runtime_seconds=_number(constraints.runtime_s),
        maximum_estimated_cost=_number(constraints.cost_usd),
        preferred_startup_latency_seconds=_number(constraints.startup_latency_s),
        start_within_seconds=_number(constraints.start_within_s),
        deadline=None if constraints.deadline_ms is None else format_instant(constraints.deadline_ms),
        providers=_selection(constraints.providers),
        regions=_selection(constraints.regions),
        jurisdictions=_texts(constraints.jurisdictions),
        compliance=_texts(constraints.compliance),
        capacity_types=_texts(constraints.capacity_types),
        reserved_first=constraints.reserved_first,
    )


def _model(model: ModelHint | None) -> Document | None:
    if model is None:
        return None
    return _stated(
        id=model.id,
        parameters=model.parameters,
        task=_word(model.task),
        precision=_word(model.precision),
        context_tokens=model.context_tokens,
        batch_size=model.batch_size,
        sequence_tokens=model.sequence_tokens,
        concurrent_sequences=model.concurrent_sequences,
        kv_precision=_word(model.kv_precision),
        optimizer=_word(model.optimizer),
        gradient_checkpointing=model.gradient_checkpointing,
        lora_rank=model.lora_rank,
        image_width=model.image_width,
        image_height=model.image_height,
        folder=model.folder,
        optimizer_in_backward=model.optimizer_in_backward or None,
        cpu_offload=model.cpu_offload or None,
        architecture=_architecture(model.architecture),
    )


def _architecture(facts: Architecture | None) -> Document | None:
    if facts is None:
        return None
    return _stated(
        name=facts.name,
        kind=facts.kind.value,
        parameters=facts.parameters,
        layers=facts.layers,
        hidden=facts.hidden,
        heads=facts.heads,
        kv_heads=facts.kv_heads,
        head_size=facts.head_size,
        intermediate=facts.intermediate,
        vocabulary=facts.vocabulary,
        tied=facts.tied,
        gated=facts.gated,
        experts=facts.experts,
        experts_active=facts.experts_active,
        expert_width=facts.expert_width,
        kv_latent=facts.kv_latent,
        window=facts.window,
        windowed_percent=facts.windowed_percent,
        context_tokens=facts.context_tokens,
        companions=facts.companions,
        image_side=facts.image_side,
        fp8_only_mlp=facts.fp8_only_mlp,
        source=facts.source,
        guessed=facts.guessed,
    )


def _retry(retry: RetryPolicy) -> Document:
    return _stated(
        attempts=retry.attempts,
        infrastructure_attempts=retry.infrastructure_attempts,
        by_class=dict(retry.by_class),
        backoff_seconds=_number(retry.backoff_s),
        backoff_maximum_seconds=_number(retry.backoff_max_s),
        when_unknown=retry.when_unknown.value,
        duplicate_cost=_number(retry.duplicate_usd),
    )


def _input(given: Input) -> Document:
    content: Document = {"text" if given.kind is InputKind.TEXT else "source": given.source}
    return {"name": given.name, **content, **_stated(sha256=given.sha256, size_gb=_gigabytes(given.size_bytes))}


def _array_item(given: ArrayItem) -> Document:
    return _stated(inputs=[_input(one) for one in given.inputs], environment=_mapping(given.environment))
