"""What a workload is expected to cost and when it is expected to start and end, as quantiles."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """Of ten like it, one stays below ``p10``, five below ``p50``, nine below ``p90``."""

    p10: Decimal
    p50: Decimal
    p90: Decimal


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Of one workload on one offer, all attempts until a success included.

    Dollars; seconds from the dispatch of the first attempt to the first start and to the end of the program;
    ``run_s`` is one undisturbed run. ``run_assumed``: nothing bounds the run time, so one hour was taken.
    ``machine`` is the class of machine, such as ``spot 1xL4``.
    """

    cost_usd: Quantiles
    start_s: Quantiles
    run_s: Quantiles
    finish_s: Quantiles
    run_assumed: bool = False
    machine: str = ""
