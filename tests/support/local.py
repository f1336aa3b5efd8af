"""A local provider over a real supervisor in a throw-away folder, and the truth about its processes."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.local import LocalOptions, LocalProvider
from placet.domain.allocations import Launch, Observation, ResolvedInput, Tag
from placet.domain.offers import Demand, Offer
from placet.domain.spec import Output, Resources, Runtime, RuntimeKind, Spec
from placet.ports.provider import Provider
from placet.testing.conformance.provider import Listener, ended

DEPLOYMENT = "dep-under-test"
OFFER = Offer(id="local-cpu", provider="local")


def process_spec(*command: str, **changes: object) -> Spec:
    """A spec that runs a command."""
    spec = Spec(runtime=Runtime(kind=RuntimeKind.PROCESS, command=command))
    return replace(spec, **changes)  # type: ignore[arg-type]  # the fields of Spec, by name


def shell(script: str, **changes: object) -> Spec:
    """A spec that runs a shell script."""
    return process_spec("/bin/sh", "-c", script, **changes)


def launch_of(
    spec: Spec, key: str, *, runtime_s: float | None = None, inputs: tuple[ResolvedInput, ...] = ()
) -> Launch:
    """A launch of that spec as the engine would make it."""
    return Launch(
        key=key,
        tag=Tag(deployment=DEPLOYMENT, workload_id=f"wl_{key}", epoch=1, nonce=f"nonce-of-{key}"),
        offer=OFFER,
        spec=spec,
        demand=Demand(
            gpu_count=spec.resources.gpu_count,
            gpu_memory_bytes=spec.resources.gpu_memory_bytes,
            cpu_cores=spec.resources.cpu_cores,
            memory_bytes=spec.resources.memory_bytes,
        ),
        inputs=inputs,
        runtime_s=None if runtime_s is None else Decimal(str(runtime_s)),
    )


def outputs(**paths: str) -> tuple[Output, ...]:
    """Declared outputs by name."""
    return tuple(Output(name=name, path=path) for name, path in paths.items())


def resources(**needs: object) -> Resources:
    """Resources by name."""
    return Resources(**needs)  # type: ignore[arg-type]  # the fields of Resources, by name


@dataclass(kw_only=True)
class LocalWorld:
    """One folder, its supervisor, and connections to it."""

    folder: Path
    options: Mapping[str, object] = field(default_factory=dict)
    opened: list[LocalProvider] = field(default_factory=list)

    async def connect(self, listener: Listener) -> LocalProvider:
        options = LocalOptions(folder=self.folder, supervisor_idle_s=30.0)
        options = replace(options, **self.options)  # type: ignore[arg-type]  # the fields of LocalOptions, by name
        provider = LocalProvider(options, SystemClock())
        listener.provider = provider
        await provider.open(listener.hints)
        self.opened.append(provider)
        return provider

    async def provider(self) -> LocalProvider:
        """A connection that grants every permit."""
        return await self.connect(Listener())

    async def close(self) -> None:
        """Close what is open and end the supervisor, by its own process number."""
        for provider in self.opened:
            await provider.close()
        pid = self.supervisor_pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            end = time.monotonic() + 5
            while self.is_supervisor(pid) and time.monotonic() < end:
                os.sched_yield()
            self.kill_supervisor()

    def supervisor_pid(self) -> int | None:
        try:
            pid = int((self.folder / "supervisor" / "lock").read_text())
        except (OSError, ValueError):
            return None
        return pid if self.is_supervisor(pid) else None

    def is_supervisor(self, pid: int) -> bool:
        """Whether that process is the supervisor of this very folder and lives."""
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return f"--data={self.folder}".encode() in line and state_of(pid) not in (None, "Z", "X")

    def kill_supervisor(self) -> int | None:
        """SIGKILL, as a crash would be; waits until it is dead."""
        pid = self.supervisor_pid()
        if pid is None:
            return None
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while self.is_supervisor(pid) and time.monotonic() < end:
            os.sched_yield()
        return pid

    async def run(self, launch: Launch, limit_s: float = 30.0) -> Observation:
        """Submit with a permit and wait for the end."""
        provider: Provider = self.opened[0] if self.opened else await self.provider()
        return await ended(provider, await provider.submit(launch), limit_s)

    def path(self, key: str, *parts: str) -> Path:
        """A path in the folder of an attempt."""
        return self.folder.joinpath("attempts", key, *parts)


def state_of(pid: int) -> str | None:
    """The state letter of a process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def alive(marker: str) -> list[int]:
    """Living processes whose command line or environment holds the text, this one excepted."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            text = Path(f"/proc/{entry}/cmdline").read_bytes() + Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in text and state_of(int(entry)) not in (None, "Z", "X"):
            found.append(int(entry))
    return found
