"""The scripted provider, on which tests of the engine rest, keeps the laws of a provider."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import FoundOutput, Launch, Phase
from placet.domain.failures import Cause
from placet.domain.offers import Offer
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Behaviour, Fault, Listener, ProviderBench, ProviderContract
from placet.testing.scripted import Script, ScriptedProvider
from tests.support.local import launch_of, shell

PLAYED = {
    Behaviour.SUCCEED: Script(),
    Behaviour.EXIT_3: Script(cause=Cause.EXIT_CODE, exit_code=3),
    Behaviour.HOLD: Script(hold=True),
    Behaviour.TALK: Script(logs=(("stdout", b"one\ntwo\nthree\n"),)),
    Behaviour.MISSING: Script(cause=Cause.START_FAILED, exit_code=None),
    Fault.LOST_REPLY: Script(lose_reply=True),
    Fault.LOST_REQUEST: Script(lose_request=True),
    Fault.NO_CAPACITY: Script(refuse=True),
    Fault.PREEMPTED: Script(cause=Cause.PREEMPTED, exit_code=None),
}


class Priced(ScriptedProvider):
    """Its machines cost something."""

    def offers(self) -> Sequence[Offer]:
        return [replace(offer, price_usd_per_hour=Decimal(1)) for offer in super().offers()]


class ScriptedBench(ProviderBench):
    """The place is the provider itself: every connection is to the same one, and what it did is open to see."""

    def __init__(self, told: Path) -> None:
        told.write_bytes(self.talk)
        found = FoundOutput(
            name="told",
            path="told.txt",
            size_bytes=len(self.talk),
            sha256=hashlib.sha256(self.talk).hexdigest(),
            location=str(told),
        )
        self._writes = Script(outputs=(found,))
        self._scripts: dict[str, Script] = {}
        self._place = Priced(SystemClock(), lambda launch: self._scripts[launch.key])

    async def connect(self, listener: Listener) -> Provider:
        listener.provider = self._place
        await self._place.open(listener.hints)
        for held in self._place.allocations.values():
            if held.seen.phase is Phase.AWAITING_PERMIT:
                self._place._ask(held.launch)  # a runner asks whoever comes
        return self._place

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        return self._playing(self._writes if behaviour is Behaviour.WRITE else PLAYED[behaviour], key)

    def impossible(self, key: str) -> Launch:
        return self._playing(Script(invalid=True), key)

    def oversized(self, key: str) -> Launch:
        return self._playing(Script(refuse=True), key)

    def faulty(self, fault: Fault, key: str) -> Launch | None:
        return self._playing(PLAYED[fault], key) if fault in PLAYED else None

    async def started(self, key: str) -> int:
        return self._place.ran.count((f"wl_{key}", 1))

    async def alive(self, key: str) -> int:
        held = self._place.allocations.get(key)
        return int(held is not None and not held.released and held.seen.phase is not Phase.ENDED)

    def _playing(self, script: Script, key: str) -> Launch:
        self._scripts[key] = script
        return replace(launch_of(shell("true"), key), offer=Offer(id="scripted-cpu", provider="scripted"))


class TestScripted(ProviderContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> ProviderBench:
        return ScriptedBench(tmp_path / "told.txt")
