"""Real container engines in throw-away folders: a dockerd of the tests' own, with one small image and no network."""

import base64
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.container import Address, ContainerOptions, ContainerProvider, tars
from placet.adapters.providers.container.setting_up import answers
from placet.domain.allocations import Launch, ResolvedInput, Tag
from placet.domain.offers import Demand, Offer
from placet.domain.spec import Output, Resources, Runtime, RuntimeKind, Spec
from placet.testing.conformance.provider import Behaviour, Listener
from tests.support.missing import missing

IMAGE = "localhost/bb:latest"
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
            if answers(str(self.socket)):
                with self.client() as client:
                    client.get("/_ping").raise_for_status()
                return
            os.sched_yield()
        raise AssertionError("the engine does not answer: " + (self.folder / "engine.log").read_text()[-3000:])

    def kill(self) -> None:
        """SIGKILL, as a crash would be. What runs goes on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_LIMIT_S)
        # They may name what is dead and not reaped yet; the engine's own child dies with it.
        for name in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / name).unlink(missing_ok=True)

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


@pytest.fixture(scope="session")
def podman_engine() -> Iterator[Engine]:
    """The other engine, behind the same API."""
    if os.geteuid() != 0 or shutil.which("podman") is None or shutil.which("runc") is None or not BUSYBOX.exists():
        missing("it needs root, podman, runc and a static busybox (scripts/system-packages)")
    folder = Path(tempfile.mkdtemp(prefix="plc-engine-"))
    files, processes = resource.getrlimit(resource.RLIMIT_NOFILE)[1], 32_768
    (folder / "containers.conf").write_text(
        f"""
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
    )
    (folder / "storage.conf").write_text(
        f"""
[storage]
driver = "overlay"
graphroot = "{folder / "data"}"
runroot = "{folder / "run"}"
"""
    )
    environment = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    socket_path = folder / "socket"
    command = ["podman", "system", "service", "--time=0", f"unix://{socket_path}"]
    engine = Engine(folder=folder, socket=socket_path, command=command, environment=environment)
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


@dataclass(frozen=True, kw_only=True)
class Registry:
    """Two doors to one store of images: an open one, and one that wants a name and a password."""

    open: str
    closed: str
    user: str = "ci"
    password: str = "s3cret"

    def auth(self, password: str | None = None) -> str:
        """The configuration of a client that has logged in."""
        word = base64.b64encode(f"{self.user}:{password or self.password}".encode()).decode()
        return json.dumps({"auths": {self.closed: {"auth": word}}})


@pytest.fixture(scope="session")
def image_registry(docker_engine: Engine) -> Iterator[Registry]:
    """A registry with one image, ``placet/bb:1``, behind both doors."""
    if shutil.which("docker-registry") is None or shutil.which("htpasswd") is None:
        missing("it needs docker-registry and htpasswd (scripts/system-packages)")
    folder = docker_engine.folder / "registry"
    folder.mkdir()
    ports = free_ports(2)
    registry = Registry(open=f"127.0.0.1:{ports[0]}", closed=f"127.0.0.1:{ports[1]}")
    entry = subprocess.run(
        ["htpasswd", "-Bbn", "-C", "4", registry.user, registry.password], check=True, capture_output=True, text=True
    ).stdout
    (folder / "htpasswd").write_text(entry)
    store = f"storage: {{filesystem: {{rootdirectory: {folder}/store}}}}"
    auth = f"auth: {{htpasswd: {{realm: x, path: {folder}/htpasswd}}}}"
    running = []
    try:
        for name, address, more in (("open", registry.open, ""), ("closed", registry.closed, auth)):
            (folder / name).write_text(f"version: 0.1\n{store}\nhttp: {{addr: {address}}}\n{more}\n")
            with (folder / f"{name}.log").open("wb") as log:
                command = ["docker-registry", "serve", str(folder / name)]
                running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for address in (registry.open, registry.closed):
            _wait_for_port(address)
        push(docker_engine, registry)
        yield registry
    finally:
        for process in running:
            process.terminate()
            process.wait(STOP_LIMIT_S)


def push(engine: Engine, registry: Registry) -> None:
    """Bring the image there, and take its local name away again."""
    name = f"{registry.open}/placet/bb"
    with engine.client() as client:
        client.post(f"/images/{IMAGE}/tag", params={"repo": name, "tag": "1"}).raise_for_status()
        headers = {"X-Registry-Auth": base64.urlsafe_b64encode(b"{}").decode()}
        reply = client.post(f"/images/{name}/push", params={"tag": "1"}, headers=headers)
        assert '"error"' not in reply.text, reply.text
        client.delete(f"/images/{name}:1").raise_for_status()


def forget_image(engine: Engine, name: str) -> None:
    """Take a name of an image away, so that it must be pulled again."""
    with engine.client() as client:
        client.delete(f"/images/{name}")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _wait_for_port(address: str) -> None:
    host, _, port = address.partition(":")
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            os.sched_yield()
    raise AssertionError(f"nothing answers at {address}")


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
