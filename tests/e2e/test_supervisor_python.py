"""The Python runtime: cached environments, built once, shared, with their own phase and their own failure."""

import asyncio
import hashlib
import os
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from placet.domain.allocations import Phase
from placet.domain.failures import Cause
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.testing.conformance.provider import ended, in_phase, read
from tests.support.local import LocalWorld, alive, launch_of, outputs
from tests.support.missing import missing
from tests.support.waiting import wait_until


def wheel(folder: Path, name: str, version: str, module: str) -> None:
    """A wheel of one module, made by hand so that no index is needed."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


def python_spec(text: str, *requirements: str, **changes: object) -> Spec:
    spec = Spec(runtime=Runtime(kind=RuntimeKind.PYTHON, script_text=text, requirements=requirements))
    return replace(spec, **changes)  # type: ignore[arg-type]  # the fields of Spec, by name


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[LocalWorld]:
    wheel(tmp_path / "wheels", "greeting", "1.0", "WORD = 'hello from a wheel'\n")
    build_env = {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(tmp_path / "wheels")}
    world = LocalWorld(folder=tmp_path / "local", options={"build_env": build_env})
    yield world
    await world.close()


async def test_a_script_with_requirements_runs_in_an_environment_of_its_own(world: LocalWorld) -> None:
    script = "import greeting, sys, os; print(greeting.WORD); print(sys.prefix); open('out', 'w').write('done')"
    seen = await world.run(launch_of(python_spec(script, "greeting==1.0", outputs=outputs(o="out")), "first"), 60)
    assert seen.computed, world.path("first", "logs", "stderr").read_text() + seen.message
    lines = world.path("first", "logs", "stdout").read_text().split("\n")
    assert lines[0] == "hello from a wheel"
    assert Path(lines[1]).parent == world.folder / "environments"
    assert "environment" in dict(seen.phases_ms)
    install = next(seal for seal in seen.logs if seal.stream == "install")
    text = b"".join([chunk.data for chunk in await read(world.opened[0], await handle(world, "first"), "install", 0)])
    assert install.bytes_total == len(text)
    assert b"greeting" in text


async def handle(world: LocalWorld, key: str):  # type: ignore[no-untyped-def]  # a test's shorthand
    return (await world.opened[0].find(key))[0]


async def test_concurrent_attempts_share_one_build(world: LocalWorld) -> None:
    provider = await world.provider()
    spec = python_spec("import greeting; print(greeting.WORD)", "greeting==1.0")
    handles = await asyncio.gather(*(provider.submit(launch_of(spec, f"share-{number}")) for number in range(5)))
    ends = await asyncio.gather(*(ended(provider, each, 60) for each in handles))
    assert all(seen.computed for seen in ends)
    assert len(os.listdir(world.folder / "environments")) == 1
    later = await world.run(launch_of(spec, "later"))
    assert later.computed
    assert dict(later.phases_ms)["environment"] < 1000
    totals = {seal.bytes_total for seen in ends for seal in seen.logs if seal.stream == "install"}
    assert len(totals) == 1


async def test_what_cannot_be_installed_is_an_environment_failure(world: LocalWorld) -> None:
    seen = await world.run(launch_of(python_spec("print(1)", "greeting==9.9"), "wrong"), 60)
    assert seen.cause is Cause.ENVIRONMENT
    assert "greeting==9.9" in seen.message
    assert dict(seen.evidence)["ran"] == "no"
    assert dict(seen.evidence)["network_trouble"] == "no"
    assert [name for name in os.listdir(world.folder / "environments") if "building" not in name] == []


async def test_an_unreachable_index_is_told_apart(tmp_path: Path) -> None:
    build_env = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": "2"}
    world = LocalWorld(folder=tmp_path / "local", options={"build_env": build_env})
    seen = await world.run(launch_of(python_spec("print(1)", "greeting==1.0"), "net"), 60)
    await world.close()
    assert seen.cause is Cause.ENVIRONMENT
    assert dict(seen.evidence)["network_trouble"] == "yes", seen.message


async def test_a_script_by_path_finds_its_neighbours(world: LocalWorld, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "neighbour.py").write_text("VALUE = 41\n")
    (tmp_path / "code" / "main.py").write_text("import sys, neighbour; print(neighbour.VALUE + 1, sys.argv[1:])\n")
    runtime = Runtime(kind=RuntimeKind.PYTHON, script=str(tmp_path / "code" / "main.py"), arguments=("a", "b c"))
    seen = await world.run(launch_of(Spec(runtime=runtime), "path"), 60)
    assert seen.computed
    assert world.path("path", "logs", "stdout").read_text() == "42 ['a', 'b c']\n"


async def test_a_script_by_path_runs_in_the_sandbox_too(world: LocalWorld, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "neighbour.py").write_text("VALUE = 41\n")
    text = "import neighbour, greeting; open('/outputs/o', 'w').write(greeting.WORD + str(neighbour.VALUE))\n"
    (tmp_path / "code" / "main.py").write_text(text)
    runtime = Runtime(
        kind=RuntimeKind.PYTHON, script=str(tmp_path / "code" / "main.py"), requirements=("greeting==1.0",)
    )
    seen = await world.run(launch_of(Spec(runtime=runtime, outputs=outputs(o="/outputs/o")), "inside"), 60)
    if "paths:bubblewrap" not in dict(seen.evidence)["mechanisms"]:
        missing("attempts cannot be shut in with bubblewrap here")
    assert seen.computed, world.path("inside", "logs", "stderr").read_text()
    assert seen.outputs[0].sha256 == hashlib.sha256(b"hello from a wheel41").hexdigest()


async def test_a_stopped_build_leaves_nothing(world: LocalWorld) -> None:
    provider = await world.provider()
    spec = python_spec("print(1)", "greeting==1.0")
    first = await provider.submit(launch_of(spec, "stopped"))
    await provider.cancel(first, 0)
    seen = await ended(provider, first)
    assert seen.cause in (Cause.STOPPED, None)
    assert (await world.run(launch_of(spec, "after"), 60)).computed


async def test_an_option_is_no_requirement(world: LocalWorld) -> None:
    from placet.domain.errors import InvalidRequest

    provider = await world.provider()
    with pytest.raises(InvalidRequest, match="pinned"):
        await provider.submit(launch_of(python_spec("print(1)", "--index-url=http://x"), "option"))


async def test_a_build_can_be_followed_and_stopped(tmp_path: Path) -> None:
    slow = tmp_path / "slow-uv"
    slow.write_text("#!/bin/sh\necho building in $UV_CACHE_DIR\nsleep 600\n")
    slow.chmod(0o755)
    world = LocalWorld(folder=tmp_path / "local", options={"uv": str(slow)})
    provider = await world.provider()
    spec = python_spec("print(1)", "greeting==1.0")
    first, second = [await provider.submit(launch_of(spec, key)) for key in ("one", "two")]
    await in_phase(provider, second, Phase.PREPARING)
    log = world.path("two", "logs", "install")
    wait_until(lambda: log.exists() and log.stat().st_size, 20, "the first words of the build")
    for handle in (first, second):
        chunks = await read(provider, handle, "install", 0)
        assert b"building in" in b"".join(chunk.data for chunk in chunks)
        assert not any(chunk.final for chunk in chunks)
    await provider.cancel(first, 0)
    seen = await ended(provider, first)
    assert seen.cause is Cause.STOPPED
    assert dict(seen.evidence)["ran"] == "no"
    assert alive(str(slow))
    await provider.cancel(second, 0)
    await ended(provider, second)
    wait_until(lambda: not alive(str(slow)), 10, "the build to end")
    await world.close()
