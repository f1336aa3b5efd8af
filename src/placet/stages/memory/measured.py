"""What equal workloads were measured to use of each GPU, and what the next one is therefore sized by. No estimate."""

from dataclasses import dataclass

from placet.domain.lessons import GpuUse, History
from placet.domain.units import format_bytes

# A tenth more than was measured: samples miss short peaks, and allocators break space up.
SPARE_NUMERATOR, SPARE_DENOMINATOR = 11, 10
STEP_BYTES = 2**20
# Serving engines take what there is: one that fills a GPU of half as much again as was asked for says nothing of its
# need.
FILLED_SHARE = 0.85
MUCH_MORE = 1.5


@dataclass(frozen=True, kw_only=True)
class MeasuredMemory:
    """``memory_bytes`` is what the next one should have of each GPU; ``attempts`` were measured."""

    memory_bytes: int
    peak_bytes: int
    attempts: int

    @property
    def why(self) -> str:
        """The measurement as a clause."""
        count = f"{self.attempts} equal attempt{'s' if self.attempts > 1 else ''}"
        return f"{count} used at most {format_bytes(self.peak_bytes)} of each GPU, and a tenth is to spare"


def measured_memory(history: History, gpu_count: int) -> MeasuredMemory | None:
    """From the measurements on as many GPUs; what was enough for the hungriest is enough."""
    uses = [use for use in history.gpu_uses if use.gpu_count == gpu_count]
    telling = [use.peak_bytes for use in uses if not _takes_all(use)]
    if not telling:
        return None
    peak_bytes = max(telling)
    spare_bytes = -(-peak_bytes * SPARE_NUMERATOR // SPARE_DENOMINATOR // STEP_BYTES) * STEP_BYTES
    enough = [use.device_bytes for use in uses if use.computed and use.device_bytes >= peak_bytes]
    return MeasuredMemory(memory_bytes=min((spare_bytes, *enough)), peak_bytes=peak_bytes, attempts=len(telling))


def _takes_all(use: GpuUse) -> bool:
    filled = use.peak_bytes >= FILLED_SHARE * use.device_bytes
    return filled and use.device_bytes >= MUCH_MORE * (use.asked_bytes or 0)
