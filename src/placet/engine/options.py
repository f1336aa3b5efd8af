"""The pace and the bounds of one worker."""

from dataclasses import dataclass, field

from placet.engine.reaper import Sweeps
from placet.stages.quote_wait import PATIENCE_S


@dataclass(frozen=True, kw_only=True)
class ReconcileOptions:
    """The bounds and rhythms of one worker."""

    worker: str
    batch_max: int = 256
    owned_max: int = 20_000
    beat_s: float = 1.0
    owner_timeout_s: float = 6.0
    takeover_poll_s: float = 2.0
    store_retry_s: float = 0.25
    observe_every_s: float = 10.0
    # How often the providers' own lists are searched for what nobody stands for, and what of it may be deleted.
    sweeps: Sweeps = field(default_factory=Sweeps)
    # News that asks for nothing to be done is written this much later, most often together with what follows it.
    lull_s: float = 0.005
    # The share of workloads that try what little is known of.
    exploration: float = 0.0
    # How long a workload waits for a price within its quote.
    quote_wait_s: float = PATIENCE_S
    # A decision that fails is its workload's trouble alone; otherwise it ends the loop.
    isolated: bool = True
