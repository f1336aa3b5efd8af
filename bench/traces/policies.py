"""Every policy that is compared, under its name; all can be handed to another process."""

from collections.abc import Mapping
from functools import partial

from bench.traces.baselines import Greedy, OnDemandOnly, Reserve, SpotOnly, UniformProgress
from bench.traces.optimum import Optimum
from bench.traces.placet import Placet
from bench.traces.simulator import Rule

PLACET = "placet"
OPTIMUM = "optimum"
GREEDY = "greedy"
UNIFORM_PROGRESS = "uniform progress"
LOWEST_PRICE = "lowest listed price"

# The published form of the reserve rule per set; over places it is not patient with young spot.
RESERVES: Mapping[str, Rule] = {
    "A": partial(Reserve, share=0.10),
    "B": partial(Reserve, share=0.15),
    "C": partial(Reserve, share=0.20, patient=False),
}
RESERVE = "reserve rule"
PATIENT_RESERVE = "reserve rule, patient"


def policies(set_name: str) -> Mapping[str, Rule]:
    """From the simplest to the best there can be."""
    chosen: dict[str, Rule] = {
        LOWEST_PRICE: SpotOnly,
        "on-demand only": OnDemandOnly,
        GREEDY: Greedy,
        UNIFORM_PROGRESS: UniformProgress,
        RESERVE: RESERVES[set_name],
    }
    if set_name == "C":
        chosen[PATIENT_RESERVE] = partial(Reserve, share=0.15)
    return chosen | {PLACET: Placet, OPTIMUM: Optimum}
