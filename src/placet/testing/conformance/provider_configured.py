"""A bench over a provider as it is set up: programs are shell scripts, and nobody knows more than the provider says."""

from collections.abc import Callable
from decimal import Decimal
from typing import TypeGuard

from placet.domain.allocations import Launch, Tag
from placet.domain.offers import Demand, Offer
from placet.domain.spec import Output, Resources, Runtime, RuntimeKind, Spec
from placet.domain.values import evolve
from placet.ports.provider import Provider, Rehearsing
from placet.testing.conformance.provider_bench import Behaviour, Fault, Listener, ProviderBench

IMAGE = "busybox:1.37"
SCRIPTS = {
    Behaviour.SUCCEED: "exit 0",
    Behaviour.EXIT_3: "exit 3",
    Behaviour.HOLD: "sleep 600 & wait",
    Behaviour.TALK: "printf 'one\\ntwo\\nthree\\n'",
    Behaviour.WRITE: "printf 'one\\ntwo\\nthree\\n' > told.txt",
}
NOWHERE = "/no/such/program"
TOO_MANY_CORES = Decimal(16_000)
TOO_MUCH_MEMORY = 10**15


class ConfiguredBench(ProviderBench):
    """``make`` gives a new provider, not opened; ``deployment`` marks all that is made, and is nobody else's."""

    def __init__(self, make: Callable[[], Provider], deployment: str) -> None:
        self._make = make
        self._probe = make()
        self.deployment = deployment
        self.prefix = f"{deployment}-"
        self.offer = Offer(id="", provider=self._probe.name)

    async def prepare(self) -> None:
        """Choose the cheapest offer that a program can be run on.

        Raises:
            LookupError: there is none.
            ProviderError: it cannot be reached.
        """
        provider = await self.connect(Listener(None))
        try:
            able = [one for one in provider.offers() if {"process", "container"} & set(one.runtimes)]
        finally:
            await provider.close()
        if not able:
            raise LookupError("it offers nothing to run a program on")
        self.offer = min(able, key=lambda one: (one.price_usd_per_hour, one.gpu is not None, one.id))

    async def connect(self, listener: Listener) -> Provider:
        provider = self._make()
        listener.provider = provider
        await provider.open(listener.hints)
        return provider

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        plain = self._launch(key, self._runtime(behaviour))
        if behaviour is Behaviour.WRITE:
            plain = evolve(plain, spec=evolve(plain.spec, outputs=(Output(name="told", path="told.txt"),)))
        played = self._probe.rehearsed(plain, behaviour) if _rehearses(self._probe) else None
        return plain if played is None else played

    def impossible(self, key: str) -> Launch:
        """A runtime that it does not have, or else an offer that is none of its own."""
        lacking = [kind for kind in RuntimeKind if kind not in self._probe.card.runtimes]
        if lacking:
            return self._launch(key, Runtime(kind=lacking[0], image=IMAGE, command=("true",), script_text="pass"))
        launch = self.launch(Behaviour.SUCCEED, key)
        return evolve(launch, offer=evolve(launch.offer, id="no-such-offer"))

    def oversized(self, key: str) -> Launch:
        launch = self.launch(Behaviour.SUCCEED, key)
        needs = Resources(cpu_cores=TOO_MANY_CORES, memory_bytes=TOO_MUCH_MEMORY)
        return evolve(
            launch,
            spec=evolve(launch.spec, resources=needs),
            demand=Demand(cpu_cores=TOO_MANY_CORES, memory_bytes=TOO_MUCH_MEMORY),
        )

    def faulty(self, fault: Fault, key: str) -> Launch | None:
        if not _rehearses(self._probe):
            return None
        return self._probe.rehearsed(self._launch(key, self._runtime(Behaviour.SUCCEED)), fault)

    def _launch(self, key: str, runtime: Runtime) -> Launch:
        return Launch(
            key=key,
            tag=Tag(deployment=self.deployment, workload_id=f"wl_{key}", epoch=1, nonce=f"nonce-of-{key}"),
            offer=self.offer,
            spec=Spec(runtime=runtime),
            demand=Demand(),
        )

    def _runtime(self, behaviour: Behaviour) -> Runtime:
        script = SCRIPTS.get(behaviour)
        command = (NOWHERE,) if script is None else ("/bin/sh", "-c", script)
        if "process" in self.offer.runtimes:
            return Runtime(kind=RuntimeKind.PROCESS, command=command)
        return Runtime(kind=RuntimeKind.CONTAINER, image=IMAGE, entrypoint=(), command=command)


def _rehearses(provider: object) -> TypeGuard[Rehearsing]:
    return callable(getattr(provider, "rehearsed", None))
