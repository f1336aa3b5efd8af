"""From the checked document to the domain's value. Nothing is checked here and nothing is lost."""

import re

from placet.contract import checks
from placet.contract.fields import plain_decimal
from placet.contract.model import Architecture, ModelHint
from placet.contract.spec import (
    ArrayItem,
    Constraints,
    ContainerRuntime,
    Input,
    ProcessRuntime,
    PythonRuntime,
    Resources,
    Retry,
    Selection,
    SpecDocument,
)
from placet.domain import models
from placet.domain import spec as domain


def to_domain(document: SpecDocument) -> domain.Spec:
    """The value that is stored: defaults filled in, units gone, mappings sorted."""
    return domain.Spec(
        version=document.version,
        name=document.name,
        runtime=_runtime(document.runtime),
        resources=_resources(document.resources, document.model),
        constraints=_constraints(document.constraints),
        model=_model(document.model),
        inputs=_inputs(document.inputs),
        outputs=tuple(
            domain.Output(name=given.name, path=given.path, required=given.required, media_type=given.media_type)
            for given in document.outputs
        ),
        environment=_pairs(document.environment),
        secrets=_pairs(document.secrets),
        objective=document.objective,
        retry=_retry(document.retry),
        repeat=document.repeat,
        earlier_artifacts=document.earlier_artifacts,
        checkpoints=document.checkpoints,
        volumes=tuple(
            domain.Volume(name=given.name, path=given.path, size_bytes=given.size_gb) for given in document.volumes
        ),
        array=tuple(_array_item(given) for given in document.array),
        labels=_pairs(document.labels),
        metadata=_metadata(document.metadata),
        log_bytes=document.log_limit,
        stop_grace_s=plain_decimal(document.stop_grace_seconds),
        provider_options=_pairs(document.provider_options.stated()),
    )


def _pairs(mapping: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(mapping.items()))


def _metadata(mapping: dict[str, str]) -> tuple[tuple[str, str], ...]:
    named = {"client_request_id" if key == "clientRequestId" else key: value for key, value in mapping.items()}
    return _pairs(named)


def _runtime(given: ContainerRuntime | ProcessRuntime | PythonRuntime) -> domain.Runtime:
    match given:
        case ContainerRuntime():
            return domain.Runtime(
                kind=domain.RuntimeKind.CONTAINER,
                image=given.image,
                image_bytes=given.image_size_gb,
                entrypoint=given.entrypoint,
                registry_secret=given.registry_secret,
                command=given.command,
                working_directory=given.working_directory,
            )
        case ProcessRuntime():
            return domain.Runtime(
                kind=domain.RuntimeKind.PROCESS,
                command=given.command,
                working_directory=given.working_directory,
            )
        case PythonRuntime():
            return domain.Runtime(
                kind=domain.RuntimeKind.PYTHON,
                script=given.script,
                script_text=given.script_text,
                arguments=given.arguments,
                requirements=given.requirements,
                python_version=given.python_version,
                working_directory=given.working_directory,
            )


def _resources(given: Resources, model: ModelHint | None) -> domain.Resources:
    """A use of a model implies a GPU as a GPU field does; how many is then left to sizing."""
    implied = model is not None and model.task is not None and given.accelerator is None and given.gpu_count is None
    wants_gpu = given.accelerator is domain.Accelerator.GPU or bool(given.gpu_count) or bool(given.gpu_fields())
    derived = model is not None and given.minimum_gpu_memory_gb is None
    count = (given.gpu_count or (0 if derived else 1)) if wants_gpu or implied else 0
    return domain.Resources(
        accelerator=domain.Accelerator.GPU if wants_gpu or implied else domain.Accelerator.NONE,
        gpu_memory_bytes=given.minimum_gpu_memory_gb,
        gpu_count=count,
        gpu_families=given.gpu_families,
        gpu_models=given.gpu_models,
        compute_capability=given.minimum_compute_capability,
        gpu_features=given.gpu_features,
        driver_version=given.minimum_driver_version,
        cuda_version=given.minimum_cuda_version,
        cpu_cores=given.cpu_cores,
        memory_bytes=given.system_memory_gb,
        disk_bytes=given.disk_gb,
        processes=given.processes,
        nodes=given.nodes,
    )


def _selection(given: Selection) -> domain.Selection:
    return domain.Selection(allowed=given.allowed, denied=given.denied, preferred=given.preferred)


def _constraints(given: Constraints) -> domain.Constraints:
    return domain.Constraints(
        runtime_s=given.maximum_runtime_seconds,
        cost_usd=given.maximum_estimated_cost,
        startup_latency_s=given.preferred_startup_latency_seconds,
        start_within_s=given.start_within_seconds,
        deadline_ms=given.deadline,
        providers=_selection(given.providers),
        regions=_selection(given.regions),
        jurisdictions=given.jurisdictions,
        compliance=given.compliance,
        capacity_types=given.capacity_types,
        reserved_first=given.reserved_first,
    )


def _model(given: ModelHint | None) -> models.ModelHint | None:
    if given is None:
        return None
    return models.ModelHint(
        id=given.id,
        parameters=given.parameters,
        task=given.task,
        precision=given.precision,
        context_tokens=given.context_tokens,
        batch_size=given.batch_size,
        sequence_tokens=given.sequence_tokens,
        concurrent_sequences=given.concurrent_sequences,
        kv_precision=given.kv_precision,
        optimizer=given.optimizer,
        optimizer_in_backward=given.optimizer_in_backward,
        gradient_checkpointing=given.gradient_checkpointing,
        lora_rank=given.lora_rank,
        cpu_offload=given.cpu_offload,
        image_width=given.image_width,
        image_height=given.image_height,
        folder=given.folder,
        architecture=_architecture(given.architecture),
    )


def _architecture(given: Architecture | None) -> models.Architecture | None:
    if given is None:
        return None
    return models.Architecture(
        name=given.name,
        kind=given.kind,
        parameters=given.parameters,
        layers=given.layers,
        hidden=given.hidden,
        heads=given.heads,
        kv_heads=given.kv_heads,
        head_size=given.head_size,
        intermediate=given.intermediate,
        vocabulary=given.vocabulary,
        tied=given.tied,
        gated=given.gated,
        experts=given.experts,
        experts_active=given.experts_active,
        expert_width=given.expert_width,
        kv_latent=given.kv_latent,
        window=given.window,
        windowed_percent=given.windowed_percent,
        context_tokens=given.context_tokens,
        companions=given.companions,
        image_side=given.image_side,
        fp8_only_mlp=given.fp8_only_mlp,
        source=given.source,
        guessed=given.guessed,
    )


def _retry(given: Retry) -> domain.RetryPolicy:
    return domain.RetryPolicy(
        attempts=given.attempts,
        infrastructure_attempts=given.infrastructure_attempts,
        by_class=tuple(sorted((str(name), most) for name, most in given.by_class.items())),
        backoff_s=given.backoff_seconds,
        backoff_max_s=given.backoff_maximum_seconds,
        when_unknown=given.when_unknown,
        duplicate_usd=given.duplicate_cost,
    )


def _inputs(given: tuple[Input, ...]) -> tuple[domain.Input, ...]:
    return tuple(_input(one) for one in given)


def _input(given: Input) -> domain.Input:
    if given.source is None:
        return domain.Input(name=given.name, kind=domain.InputKind.TEXT, source=given.text or "", sha256=given.sha256)
    kind, source = _located(given.source)
    return domain.Input(name=given.name, kind=kind, source=source, sha256=given.sha256, size_bytes=given.size_gb)


def _located(source: str) -> tuple[domain.InputKind, str]:
    """Object stores count as storage: their sources keep the scheme, as storage aliases do."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", source)
    if match is None:
        return domain.InputKind.PATH, source
    scheme, rest = match[1].lower(), source[match.end() :]
    if scheme == "file":
        return domain.InputKind.PATH, checks.file_path(source)
    return (domain.InputKind.HTTP if scheme in {"http", "https"} else domain.InputKind.STORAGE), f"{scheme}://{rest}"


def _array_item(given: ArrayItem) -> domain.ArrayItem:
    return domain.ArrayItem(inputs=_inputs(given.inputs), environment=_pairs(given.environment))
