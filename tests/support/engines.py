"""Real container engines in throw-away folders: a dockerd of the tests' own, with one small image and no network."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.container import Address, ContainerOptions, ContainerProvider, tars
from placet.domain.allocations import Launch, ResolvedInput, Tag
from placet.domain.offers import Demand, Offer
from placet.domain.spec import Output, Resources, Runtime, RuntimeKind, Spec
from placet.testing.conformance.provider import Behaviour, Listener
from tests.support.missing import missing

IMAGE = "bb:1"
START_LIMIT_S = 20.0
STOP_LIMIT_S = 20.0
BUSYBOX = Path("/bin/busybox")
DEPLOYMENT = "dep-under-test"
SCRIPTS = {
    Behaviour.SUCCEED: "exit 0",
    Behaviour.EXIT_3: "exit 3",
    Behaviour.HOLD: "sleep 600 & wait",
    Behaviour.TALK: "printf 'one\\ntwo\\nthree\\n'",
    Behaviour.WRITE: "printf 'one\\ntwo\\nthree\\n' > told.txt",
}


@dataclass(kw_only=True)
class Engine:
    """One engine that answers at a socket; ``command`` starts it again."""

    folder: Path
    socket: Path
    command: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(transport=transport, base_url="http://engine/v1.40", timeout=30, trust_env=False)

    def get(self, path: str, **parameters: Any) -> Any:
        with self.client() as client:
            reply = client.get(path, params={name: _text(value) for name, value in parameters.items()})
        reply.raise_for_status()
        return reply.json()

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "engine.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            assert self.process.poll() is None, (self.folder / "engine.log").read_text()[-3000:]
            try:
                with self.client() as client:
                    if client.get("/_ping", timeout=1).is_success:
                        return
            except httpx.HTTPError:
                os.sched_yield()
        raise AssertionError("the engine does not answer: " + (self.folder / "engine.log").read_text()[-3000:])

    def kill(self) -> None:
        """SIGKILL, as a crash would be. What runs goes on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_LIMIT_S)
        (self.folder / "pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Delete what is there, and end it."""
        if self.process is None or self.process.poll() is not None:
            return
        with self.client() as client:
            for each in client.get("/containers/json", params={"all": "1"}).json():
                client.delete(f"/containers/{each['Id']}", params={"force": "1", "v": "1"})
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_LIMIT_S)


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[Engine]:
    """A dockerd of the tests' own; nothing of it touches the machine's."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None or not BUSYBOX.exists():
        missing("it needs root, dockerd and a static busybox (scripts/system-packages)")
    folder = Path(tempfile.mkdtemp(prefix="plc-engine-"))
    settings = {
        "data-root": str(folder / "data"),
        "exec-root": str(folder / "exec"),
        "pidfile": str(folder / "pid"),
        "hosts": [f"unix://{folder / 'socket'}"],
        "storage-driver": "overlay2",
        "iptables": False,
        "ip6tables": False,
        "bridge": "none",
        "ip-forward": False,
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "insecure-registries": ["127.0.0.0/8"],
        "live-restore": True,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    command = ["dockerd", "--config-file", str(folder / "settings.json")]
    engine = Engine(folder=folder, socket=folder / "socket", command=command)
    try:
        engine.start()
        load_image(engine)
        yield engine
    finally:
        engine.stop()
        unmount(folder)
        shutil.rmtree(folder, ignore_errors=True)


def unmount(folder: Path) -> None:
    """Whatever an engine left mounted below its folder."""
    listed = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((place for place in listed if place.startswith(str(folder))), reverse=True):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def busybox_image(*, shell: bool = True) -> bytes:
    """An image of one static program under all its names; without a shell, what shells are called is left out."""
    names = subprocess.run([str(BUSYBOX), "--list"], check=True, capture_output=True, text=True).stdout.split()
    pieces = [tars.small("bin/busybox", BUSYBOX.read_bytes(), 0o755)]
    for name in sorted(set(names) - {"busybox"} - (set() if shell else {"sh", "ash", "hush"})):
        pieces.append(_link(f"bin/{name}", "busybox"))
    pieces.append(tars.small("etc/passwd", b"nobody:x:65534:65534::/:/bin/false\n", 0o644))
    pieces.append(tars.header("tmp", size_bytes=None, mode=0o1777))
    return b"".join([*pieces, tars.END])


def load_image(engine: Engine, name: str = IMAGE, *, shell: bool = True) -> None:
    """Bring the image into the engine, from a file."""
    repository, _, tag = name.partition(":")
    with engine.client() as client:
        reply = client.post(
            "/images/create",
            params={"fromSrc": "-", "repo": repository, "tag": tag, "changes": 'CMD ["/bin/sh"]'},
            content=busybox_image(shell=shell),
        )
    reply.raise_for_status()


@dataclass(kw_only=True)
class EngineWorld:
    """Connections to one engine."""

    engine: Engine
    options: ContainerOptions
    opened: list[ContainerProvider] = field(default_factory=list)
    began_s: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    @asynccontextmanager
    async def on(cls, engine: Engine, **options: Any) -> "AsyncIterator[EngineWorld]":
        """A world that deletes all that is left of it."""
        made = ContainerOptions(address=Address(host=engine.host), network="none", **options)
        world = cls(engine=engine, options=made)
        try:
            yield world
        finally:
            for provider in world.opened:
                await provider.close()
            world.clear()

    async def connect(self, listener: Listener) -> ContainerProvider:
        provider = ContainerProvider(self.options, SystemClock())
        listener.provider = provider
        await provider.open(listener.hints)
        self.opened.append(provider)
        return provider

    def launch(self, key: str, spec: Spec, *, inputs: tuple[ResolvedInput, ...] = (), **more: Any) -> Launch:
        """A launch of that spec as the engine would make it."""
        launch = Launch(
            key=key,
            tag=Tag(deployment=DEPLOYMENT, workload_id=f"wl_{key}", epoch=1, nonce=f"nonce-of-{key}"),
            offer=Offer(id=f"{self.options.name}-cpu", provider=self.options.name),
            spec=spec,
            demand=Demand(cpu_cores=spec.resources.cpu_cores, memory_bytes=spec.resources.memory_bytes),
            inputs=inputs,
        )
        return replace(launch, **more)

    def oversized(self, key: str) -> Launch:
        return self.launch(key, replace(script("true"), resources=Resources(cpu_cores=Decimal(100_000))))

    def starts(self, key: str) -> int:
        """How often the engine began the container of that name."""
        wanted = {"container": [key], "event": ["start"], "type": ["container"]}
        with self.engine.client() as client:
            query = {"since": self.began_s, "until": int(time.time()) + 1, "filters": json.dumps(wanted)}
            with client.stream("GET", "/events", params=query) as reply:
                return sum(bool(line.strip()) for line in reply.iter_lines())

    def alive(self, key: str) -> int:
        """How many containers of that name run."""
        return len(self.engine.get("/containers/json", filters={"name": [f"^/?{key}$"], "status": ["running"]}))

    def left(self) -> list[str]:
        """The names of all that is ours at the engine, except for the marks of names that are never used again."""
        containers = self.engine.get("/containers/json", all=1)
        volumes = self.engine.get("/volumes").get("Volumes") or []
        names = [each["Names"][0].lstrip("/") for each in containers] + [each["Name"] for each in volumes]
        return sorted(name for name in names if not name.endswith(".gone"))

    def clear(self) -> None:
        with self.engine.client() as client:
            for each in client.get("/containers/json", params={"all": "1"}).json():
                client.delete(f"/containers/{each['Id']}", params={"force": "1", "v": "1"})
            for each in client.get("/volumes").json().get("Volumes") or []:
                client.delete(f"/volumes/{each['Name']}", params={"force": "1"})


def script(text: str, *, image: str = IMAGE, **changes: Any) -> Spec:
    """A spec that runs a shell script in an image."""
    runtime = Runtime(kind=RuntimeKind.CONTAINER, image=image, entrypoint=(), command=("/bin/sh", "-c", text))
    return replace(Spec(runtime=runtime), **changes)


def container_launch(world: EngineWorld, behaviour: Behaviour, key: str) -> Launch:
    """A launch whose program behaves so."""
    if behaviour is Behaviour.MISSING:
        runtime = Runtime(kind=RuntimeKind.CONTAINER, image=IMAGE, entrypoint=(), command=("/no/such/program",))
        return world.launch(key, Spec(runtime=runtime))
    outputs = (Output(name="told", path="told.txt"),) if behaviour is Behaviour.WRITE else ()
    return world.launch(key, script(SCRIPTS[behaviour], outputs=outputs))


def _link(path: str, target: str) -> bytes:
    import tarfile

    info = tarfile.TarInfo(path)
    info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
    return info.tobuf(tarfile.PAX_FORMAT)


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, dict) else str(value)


__all__ = ["Engine", "EngineWorld", "container_launch", "docker_engine", "load_image", "script"]
