"""A provider of machines that are not real, for rehearsals of what can go wrong. It runs no program."""

from pathlib import Path
from typing import Protocol

from placet.adapters.providers.simulated.behaviour import Behaviour
from placet.adapters.providers.simulated.options import SimulatedOptions, behaviour_of
from placet.adapters.providers.simulated.provider import SimulatedProvider
from placet.ports.ambient import Clock

__all__ = ["Behaviour", "SimulatedOptions", "SimulatedProvider", "simulated_provider"]


class _Stated(Protocol):
    def stated(self) -> str: ...


class _Section(Protocol):
    @property
    def for_all(self) -> bool: ...
    @property
    def promised_visibility_seconds(self) -> float: ...
    @property
    def promised_late_create_seconds(self) -> float: ...
    @property
    def defaults(self) -> _Stated: ...


def simulated_provider(section: _Section, folder: Path, clock: Clock) -> SimulatedProvider:
    """The provider that the settings of a server describe; nothing is opened yet."""
    options = SimulatedOptions(
        folder=folder.absolute(),
        for_all=section.for_all,
        promised_visibility_s=section.promised_visibility_seconds,
        promised_late_create_s=section.promised_late_create_seconds,
        behaviour=behaviour_of(section.defaults.stated(), Behaviour()),
    )
    return SimulatedProvider(options, clock)
