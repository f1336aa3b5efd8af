"""The published figures of GPU memory, each row with the hint that says the same; for tests and the benchmark."""

import csv
from dataclasses import dataclass
from pathlib import Path

from placet.domain.models import ModelHint, ModelUse, Optimizer, Precision
from placet.stages.memory.estimate import estimate_memory
from placet.stages.memory.values import MemoryEstimate

TABLE = Path(__file__).parents[1] / "unit" / "stages" / "data" / "published_memory.csv"

_UNITS = {"GiB": 2**30, "GB": 10**9, "MiB": 2**20}
_U, _O = ModelUse, Optimizer
_L8, _L70, _L405 = "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-405B"
_L3 = "meta-llama/Meta-Llama-3-8B"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a row is to be read: the hint, over how many GPUs, which part was measured (``""``: the whole)."""

    hint: ModelHint
    gpu_count: int = 1
    part: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One published figure beside our estimate."""

    number: int
    model: str
    method: str
    hardware: str
    bytes: int
    measured: bool
    setting: Setting

    @property
    def name(self) -> str:
        return f"{self.number}: {self.model}, {self.method}, {self.hardware}"

    @property
    def training(self) -> bool:
        return self.setting.hint.task not in (None, ModelUse.INFERENCE)

    def estimate(self) -> MemoryEstimate:
        estimate = estimate_memory(self.setting.hint, gpu_count=self.setting.gpu_count)
        assert isinstance(estimate, MemoryEstimate)
        return estimate

    def estimated_bytes(self) -> int:
        """The likely figure of what was measured: one part, or everything including the driver's context."""
        estimate = self.estimate()
        return estimate.part(self.setting.part).likely if self.setting.part else estimate.recommended_bytes


def published() -> tuple[Row, ...]:
    """All rows of the table, in its order."""
    with TABLE.open(newline="", encoding="utf-8") as text:
        return tuple(_row(number, row) for number, row in enumerate(csv.DictReader(text), 1))


def _row(number: int, row: dict[str, str]) -> Row:
    return Row(
        number=number,
        model=row["model"],
        method=row["method"],
        hardware=row["hardware"],
        bytes=int(float(row["peak"]) * _UNITS[row["unit"]]),
        measured=row["kind"] == "measured",
        setting=_SETTINGS[number - 1],
    )


def _step(model_id: str, use: ModelUse, *, batch: int = 2, **more: object) -> ModelHint:
    fields: dict[str, object] = {"gradient_checkpointing": True, "lora_rank": 8, **more}
    return ModelHint(id=model_id, task=use, batch_size=batch, sequence_tokens=2048, **fields)


def _rule(parameters: float, use: ModelUse, precision: Precision | None = None, **more: object) -> ModelHint:
    """A rule of thumb names no batch or length: the smallest sensible ones."""
    fields: dict[str, object] = {"gradient_checkpointing": True, **more}
    return ModelHint(
        parameters=int(parameters), task=use, precision=precision, batch_size=1, sequence_tokens=1024, **fields
    )


_IN_BACKWARD = {"optimizer": _O.PAGED_ADAMW_8BIT, "optimizer_in_backward": True}
_NO_CHECKPOINTS = "read as without checkpointing: it is what changes between the two cards in the rows for LoRA"
_ONE_ITEM = (
    "the recipe's own batch of 1; with 2 as in the table's heading, weights, checkpoints, adapters and one block "
    "alone are more than was measured, and the estimate is 31% above it"
)
_SERVED = ModelHint(id=_L3, task=_U.INFERENCE, precision=Precision.BF16, context_tokens=8192, concurrent_sequences=1)

_SETTINGS = (
    Setting(hint=_step(_L8, _U.FULL_FINE_TUNE, **_IN_BACKWARD)),
    Setting(hint=_step(_L8, _U.FULL_FINE_TUNE, **_IN_BACKWARD, gradient_checkpointing=False), note=_NO_CHECKPOINTS),
    Setting(hint=_step(_L8, _U.LORA)),
    Setting(hint=_step(_L8, _U.LORA, gradient_checkpointing=False)),
    Setting(hint=_step(_L8, _U.QLORA)),
    Setting(hint=_step(_L70, _U.FULL_FINE_TUNE, optimizer=_O.ADAMW, cpu_offload=True), gpu_count=8),
    Setting(hint=_step(_L70, _U.LORA, lora_rank=16), gpu_count=8),
    Setting(hint=_step(_L405, _U.QLORA, lora_rank=16, batch=1), gpu_count=8, note=_ONE_ITEM),
    Setting(hint=_rule(7e9, _U.FULL_FINE_TUNE, optimizer=_O.ADAMW_FP32)),
    Setting(hint=_rule(7e9, _U.FULL_FINE_TUNE, optimizer=_O.ADAMW)),
    Setting(hint=_rule(7e9, _U.LORA)),
    Setting(hint=_rule(7e9, _U.QLORA, Precision.INT8)),
    Setting(hint=_rule(7e9, _U.QLORA, Precision.NF4)),
    Setting(hint=_rule(14e9, _U.LORA)),
    Setting(hint=_rule(30e9, _U.LORA)),
    Setting(hint=_rule(70e9, _U.LORA)),
    Setting(hint=_rule(70e9, _U.QLORA, Precision.NF4)),
    Setting(
        hint=ModelHint(id=_L3, task=_U.FULL_FINE_TUNE, optimizer=_O.ADAMW_8BIT, batch_size=1, sequence_tokens=1024)
    ),
    Setting(hint=ModelHint(id=_L3, task=_U.LORA, precision=Precision.INT8, batch_size=1, sequence_tokens=1024)),
    Setting(
        hint=ModelHint(id=_L70, task=_U.QLORA, batch_size=1, sequence_tokens=512, gradient_checkpointing=True),
        gpu_count=2,
    ),
    Setting(hint=_SERVED, part="weights"),
    Setting(hint=_SERVED, gpu_count=2, part="weights"),
    Setting(hint=ModelHint(id=_L8, task=_U.INFERENCE, context_tokens=37_696), part="weights"),
    Setting(hint=ModelHint(id=_L405 + "-Instruct-FP8", task=_U.INFERENCE), gpu_count=8, part="weights"),
    Setting(hint=ModelHint(id="meta-llama/Llama-3.2-11B-Vision-Instruct", task=_U.INFERENCE)),
)
