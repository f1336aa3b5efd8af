"""The laws of a provider as tests. An adapter inherits ``ProviderContract`` and supplies a ``ProviderBench``.

This is the face for pytest; ``provider_run`` tries the same laws without it.
"""

from abc import ABC, abstractmethod

import pytest

from placet.testing.conformance.provider_bench import CALL_LIMIT_S as CALL_LIMIT_S
from placet.testing.conformance.provider_bench import END_LIMIT_S as END_LIMIT_S
from placet.testing.conformance.provider_bench import Behaviour as Behaviour
from placet.testing.conformance.provider_bench import Fault as Fault
from placet.testing.conformance.provider_bench import Listener as Listener
from placet.testing.conformance.provider_bench import ProviderBench as ProviderBench
from placet.testing.conformance.provider_bench import ended as ended
from placet.testing.conformance.provider_bench import essence as essence
from placet.testing.conformance.provider_bench import free_slots as free_slots
from placet.testing.conformance.provider_bench import in_phase as in_phase
from placet.testing.conformance.provider_bench import observe as observe
from placet.testing.conformance.provider_bench import read as read
from placet.testing.conformance.provider_bench import released as released
from placet.testing.conformance.provider_faults import LAWS as LAWS
from placet.testing.conformance.provider_law import Law, NotApplicable, trial_on


class ProviderContract(ABC):
    """Inherit, and supply the fixture ``bench``."""

    @pytest.fixture
    @abstractmethod
    def bench(self) -> ProviderBench:
        """The adapter under test."""

    @pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
    async def test_law(self, bench: ProviderBench, law: Law) -> None:
        """The law holds, or it says nothing about this adapter and the reason is told."""
        try:
            async with trial_on(bench) as trial:
                await law.holds(trial)
        except NotApplicable as reason:
            pytest.skip(f"not applicable: {reason}")
