"""How attempts end on a real engine: each kind of death with its cause and class, and nothing left of it."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from placet.adapters.providers.container import ContainerProvider
from placet.domain.allocations import Launch, Observation, Phase, ResolvedInput
from placet.domain.errors import Unavailable
from placet.domain.failures import MEANINGS, Cause, FailureClass
from placet.domain.spec import Output, Repeat, Resources, Runtime, RuntimeKind, Spec
from placet.domain.units import MIB
from placet.testing.conformance.provider import Listener, ended, in_phase, observe, read, released
from placet.testing.conformance.waiting import eventually
from tests.support.engines import IMAGE, Engine, EngineWorld, Registry, forget_image, load_image, script
from tests.support.waiting import wait_until

C = FailureClass
PLAIN = "localhost/plain:latest"


@pytest.fixture
async def world(docker_engine: Engine) -> AsyncIterator[EngineWorld]:
    async with EngineWorld.on(docker_engine, pull_silence_s=30.0) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of the engine's client is this test's own."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


async def ran(world: EngineWorld, launch: Launch) -> Observation:
    """Its end, and that nothing is left of it once it is released."""
    provider = await world.connect(Listener())
    handle = await provider.submit(launch)
    last = await ended(provider, handle)
    await gone(world, provider, launch)
    return last


async def gone(world: EngineWorld, provider: ContainerProvider, launch: Launch) -> None:
    (handle,) = await provider.find(launch.key)
    await released(provider, handle)
    assert world.left() == []


def limits(**needs: Any) -> Resources:
    return Resources(**needs)


DEATHS: dict[str, tuple[Spec, Cause, FailureClass, int | None, int | None]] = {
    "exit-7": (script("echo out; echo err >&2; exit 7"), Cause.EXIT_CODE, C.PROGRAM, 7, None),
    "segv": (script("kill -SEGV $$"), Cause.SIGNAL, C.PROGRAM, 139, 11),
    "sigkill": (script("kill -KILL $$"), Cause.KILLED, C.PROGRAM, 137, 9),
    "memory": (
        script("exec tail /dev/zero", resources=limits(memory_bytes=32 * MIB)),
        Cause.OUT_OF_MEMORY,
        C.MEMORY,
        137,
        9,
    ),
    "memory-of-a-child": (
        script("tail /dev/zero; exit 3", resources=limits(memory_bytes=32 * MIB)),
        Cause.OUT_OF_MEMORY,
        C.MEMORY,
        3,
        None,
    ),
    "file-size": (
        script("exec dd if=/dev/zero of=big bs=1M count=8", resources=limits(disk_bytes=4 * MIB)),
        Cause.DISK_LIMIT,
        C.MEMORY,
        153,
        25,
    ),
    "no-such-program": (
        Spec(runtime=Runtime(kind=RuntimeKind.CONTAINER, image=IMAGE, entrypoint=(), command=("nothing", "here"))),
        Cause.START_FAILED,
        C.PROGRAM,
        None,
        None,
    ),
}


@pytest.mark.parametrize("death", DEATHS)
async def test_a_program_that_ends_badly(world: EngineWorld, death: str) -> None:
    spec, cause, failure_class, code, signal = DEATHS[death]
    last = await ran(world, world.launch(f"death-{death}", spec))
    assert (last.cause, last.exit_code, last.signal) == (cause, code, signal), last
    assert MEANINGS[cause].failure_class is failure_class
    assert not last.computed
    if cause is Cause.OUT_OF_MEMORY:
        assert dict(last.evidence)["oom_kills_in_cgroup"] != "0", "it is proven, and not read from an exit code"


@pytest.mark.parametrize("deaf", [False, True], ids=["hears", "deaf"])
async def test_the_time_limit_is_held_without_a_server(world: EngineWorld, deaf: bool) -> None:
    spec = script("trap '' TERM; sleep 60 & wait; sleep 60" if deaf else "exec sleep 60", stop_grace_s=Decimal(1))
    launch = world.launch("limit", spec, runtime_s=Decimal(1))
    first = await world.connect(Listener())
    handle = await first.submit(launch)
    await in_phase(first, handle, Phase.RUNNING)
    await first.close()
    wait_until(lambda: world.alive("limit") == 0, 20, "the program is over, and nobody was there to end it")
    second = await world.connect(Listener(None))
    last = await ended(second, handle)
    assert last.cause is Cause.TIMEOUT
    assert MEANINGS[Cause.TIMEOUT].failure_class is C.TIME
    await gone(world, second, launch)


async def test_a_cancel_while_it_waits(world: EngineWorld) -> None:
    launch = world.launch("waits", script("exit 0"))
    provider = await world.connect(Listener(None))
    handle = await provider.submit(launch)
    await in_phase(provider, handle, Phase.AWAITING_PERMIT)
    await provider.cancel(handle, 0.0)
    last = await ended(provider, handle)
    assert (last.cause, last.started_ms) == (Cause.STOPPED, None)
    assert world.starts("waits") == 0
    await gone(world, provider, launch)


async def test_a_cancel_while_it_runs_lets_the_program_say_good_bye(world: EngineWorld) -> None:
    launch = world.launch("runs", script("trap 'echo good-bye; exit 0' TERM; echo here; while :; do sleep 0.1; done"))
    provider = await world.connect(Listener())
    handle = await provider.submit(launch)
    await in_phase(provider, handle, Phase.RUNNING)
    await provider.cancel(handle, 10.0)
    last = await ended(provider, handle)
    assert last.cause is Cause.STOPPED, "a stop is no success, whatever the program makes of it"
    said = b"".join(chunk.data for chunk in await read(provider, handle, "stdout", 0))
    assert said in (b"here\ngood-bye\n", b""), "either it had set its trap, or it was too early for that"
    await gone(world, provider, launch)


@pytest.fixture
def silent_registry() -> Iterator[str]:
    """A registry that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_cancel_while_the_image_is_pulled(world: EngineWorld, silent_registry: str, home: Path) -> None:
    launch = world.launch("pulls", script("exit 0", image=f"{silent_registry}/placet/bb:1"))
    provider = await world.connect(Listener())
    handle = await provider.submit(launch)
    assert [each.key for each in await provider.find("pulls")] == ["pulls"]
    assert (await observe(provider, handle)).phase is Phase.PROVISIONING
    await provider.cancel(handle, 0.0)
    last = await ended(provider, handle)
    assert (last.cause, last.started_ms) == (Cause.STOPPED, None)
    await gone(world, provider, launch)


async def test_a_pull_goes_on_after_its_server_died(world: EngineWorld, image_registry: Registry, home: Path) -> None:
    image = f"{image_registry.open}/placet/bb:1"
    forget_image(world.engine, image)
    launch = world.launch("resumed", script("cat /inputs/a", image=image), inputs=(text("a", "hello"),))
    first = await world.connect(Listener())
    handle = await first.submit(launch)
    await first.close()  # in the middle of whatever it was doing
    second = await world.connect(Listener())
    last = await ended(second, handle)
    assert last.computed, last
    assert world.starts("resumed") == 1
    await gone(world, second, launch)


@pytest.mark.parametrize(
    ("where", "login", "cause", "words"),
    [
        ("open/placet/nothing:1", None, Cause.IMAGE, "no such image"),
        ("open/placet/bb:9", None, Cause.IMAGE, "no such image"),
        ("closed/placet/bb:1", None, Cause.IMAGE, "wants credentials"),
        ("closed/placet/bb:1", "wrong", Cause.IMAGE, "refused the credentials"),
        ("closed/placet/bb:1", "right", None, ""),
        ("down/placet/bb:1", None, Cause.PROVIDER_ERROR, "does not answer"),
        ("open/placet/bb:not a tag", None, Cause.IMAGE, ""),
    ],
    ids=["no-repository", "no-tag", "no-credentials", "wrong-password", "right-password", "down", "no-name"],
)
async def test_an_image_that_cannot_be_had(
    world: EngineWorld,
    image_registry: Registry,
    home: Path,
    where: str,
    login: str | None,
    cause: Cause | None,
    words: str,
) -> None:
    door, _, rest = where.partition("/")
    hosts = {"open": image_registry.open, "closed": image_registry.closed, "down": "127.0.0.1:1"}
    image = f"{hosts[door]}/{rest}"
    forget_image(world.engine, image)
    if login is not None:
        config = image_registry.auth(None if login == "right" else "not-it")
        (home / "config.json").write_text(config)
    last = await ran(world, world.launch("image", script("exit 0", image=image)))
    assert last.cause is cause, last
    assert words in last.message
    assert (last.started_ms is None) == (cause is not None)


async def test_an_engine_that_is_killed_in_the_middle(world: EngineWorld) -> None:
    launch = world.launch("killed", script("sleep 2; echo after; exit 5"))
    provider = await world.connect(Listener())
    handle = await provider.submit(launch)
    await in_phase(provider, handle, Phase.RUNNING)
    world.engine.kill()
    try:
        with pytest.raises(Unavailable):
            await provider.observe([handle])

        async def unknown() -> bool:
            return all(offer.free.slots is None for offer in provider.offers())

        await eventually(unknown, 20, "nobody says what is free")
    finally:
        world.engine.start()
    last = await ended(provider, handle)
    assert (last.cause, last.exit_code) == (Cause.EXIT_CODE, 5)
    assert b"".join(chunk.data for chunk in await read(provider, handle, "stdout", 0)) == b"after\n"
    assert world.starts("killed") <= 1
    await gone(world, provider, launch)


async def test_an_image_without_a_shell_runs_bare(world: EngineWorld) -> None:
    load_image(world.engine, PLAIN, shell=False)

    def plain(key: str, *command: str, **changes: Any) -> Launch:
        runtime = Runtime(kind=RuntimeKind.CONTAINER, image=PLAIN, entrypoint=(), command=("/bin/busybox", *command))
        return world.launch(key, Spec(runtime=runtime, stop_grace_s=Decimal(1)), **changes)

    well = await ran(world, plain("bare-well", "true"))
    assert well.computed
    assert dict(well.evidence)["told_by"] == "the engine alone"
    badly = await ran(world, plain("bare-badly", "false"))
    assert (badly.cause, badly.exit_code) == (Cause.EXIT_CODE, 1)
    missing = plain("bare-missing")
    missing = replace(
        missing, spec=replace(missing.spec, runtime=replace(missing.spec.runtime, command=("/bin/nope",)))
    )
    assert (await ran(world, missing)).cause is Cause.START_FAILED
    late = await ran(world, plain("bare-late", "sleep", "60", runtime_s=Decimal(1)))
    assert late.cause is Cause.TIMEOUT, "its time is held by a server that runs"
    hungry = plain("bare-hungry", "tail", "/dev/zero")
    hungry = replace(hungry, spec=replace(hungry.spec, resources=limits(memory_bytes=32 * MIB)))
    assert (await ran(world, hungry)).cause is Cause.OUT_OF_MEMORY


def text(name: str, content: str) -> ResolvedInput:
    return ResolvedInput(name=name, kind="text", source=content)


async def test_what_comes_in_and_goes_out(world: EngineWorld, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "one").write_bytes(b"1" * 100_000)
    (folder / "link").symlink_to("/etc/passwd")
    inputs = (text("words", "a b\n"), ResolvedInput(name="data", kind="path", source=str(folder)))
    program = (
        'cat "$PLACET_INPUTS/words" /inputs/data/below/one > "$PLACET_OUTPUTS/all"; ls /inputs/data > /outputs/listed;'
        "mkdir -p res/deep; echo 1 > res/a.json; echo 22 > res/deep/b.json; echo x > res/c.txt;"
        "ln -s a.json res/s.json;"
        "ln res/a.json res/h.json; echo no > /inputs/words || echo read-only"
    )
    declared = (
        Output(name="all", path="/outputs"),
        Output(name="jsons", path="res/**/*.json"),
        Output(name="none", path="never/*"),
    )
    launch = world.launch("files", script(program, outputs=declared), inputs=inputs)
    provider = await world.connect(Listener())
    handle = await provider.submit(launch)
    last = await ended(provider, handle)
    assert last.computed, last
    found = {each.path: each for each in last.outputs}
    assert sorted(found) == ["all", "listed", "res/a.json", "res/deep/b.json", "res/h.json"]
    assert found["res/a.json"].sha256 == found["res/h.json"].sha256
    assert last.missing == ("none",)
    assert last.skipped == ("res/s.json: is a symbolic link",)
    whole = b"".join([piece async for piece in provider.read_output(handle, found["all"], 0)])
    assert whole == b"a b\n" + b"1" * 100_000
    listed = b"".join([piece async for piece in provider.read_output(handle, found["listed"], 0)])
    assert listed == b"below\n", "links are not followed"
    linked = b"".join([piece async for piece in provider.read_output(handle, found["res/h.json"], 1)])
    assert linked == b"\n"
    said = b"".join(chunk.data for chunk in await read(provider, handle, "stdout", 0))
    assert said == b"read-only\n"
    await gone(world, provider, launch)


async def test_no_spec_gets_more_rights_than_stand_here(world: EngineWorld) -> None:
    program = "id -u; grep Cap /proc/self/status | sort -u; mount -t tmpfs x /tmp 2>&1; ls /var/run/docker.sock; env"
    secret = "sw0rdfish-canary"
    spec = script(f'{program}; [ "$HIDDEN" = {secret!r} ] && echo known', resources=limits(processes=64))
    launch = world.launch("rights", spec, secrets=(("HIDDEN", secret),))
    provider = await world.connect(Listener())
    handle = await provider.submit(launch)
    await ended(provider, handle)
    inspected = world.engine.get("/containers/rights/json")
    host = inspected["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert not host["Privileged"]
    assert not host["Binds"]
    assert not host["Devices"]
    assert "no-new-privileges" in host["SecurityOpt"]
    assert host["PidsLimit"] == 64
    assert host["NetworkMode"] == "none"
    assert (host["PidMode"], host["IpcMode"], host["UTSMode"]) == ("", "private", "")
    assert all(mount["Type"] == "volume" for mount in inspected["Mounts"])
    said = b"".join(chunk.data for chunk in await read(provider, handle, "stdout", 0)).decode()
    assert said.startswith("65534\n")
    assert "CapEff:\t0000000000000000" in said
    assert "known" in said, "the program has its secret"
    everything = json.dumps([inspected, world.engine.get("/volumes"), world.engine.get("/containers/json", all=1)])
    assert "canary" not in everything.replace(
        json.dumps(f'{program}; [ "$HIDDEN" = {secret!r} ] && echo known')[1:-1], ""
    )
    await gone(world, provider, launch)


async def test_checkpoints_go_from_one_attempt_to_the_next(world: EngineWorld) -> None:
    def attempt(number: int, program: str) -> Launch:
        launch = world.launch(f"steps-{number}", script(program, repeat=Repeat.RESUMABLE))
        return replace(launch, tag=replace(launch.tag, workload_id="wl_steps", epoch=number))

    provider = await world.connect(Listener())
    first, second = attempt(1, 'echo 41 > "$PLACET_CHECKPOINTS/step"; exit 9'), attempt(2, "cat /checkpoints/step")
    handle = await provider.submit(first)
    assert (await ended(provider, handle)).exit_code == 9
    await released(provider, handle)
    handle = await provider.submit(second)
    assert (await ended(provider, handle)).computed
    assert b"".join(chunk.data for chunk in await read(provider, handle, "stdout", 0)) == b"41\n"
    await released(provider, handle)
    assert [name.rpartition(".")[2] for name in world.left()] == ["checkpoints"]
