"""What goes in and what comes out: inputs by path, text and URL; outputs by path, folder and pattern; nothing else."""

import hashlib
import http.server
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from placet.domain.allocations import Observation, ResolvedInput
from placet.domain.errors import InvalidRequest
from placet.domain.failures import Cause
from placet.domain.spec import Repeat, Runtime, RuntimeKind, Spec
from placet.testing.conformance.provider import ended, released
from tests.support.local import LocalWorld, launch_of, outputs, resources, shell
from tests.support.missing import need_bubblewrap


@pytest.fixture(params=["sandboxed", "bare"])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[LocalWorld]:
    if request.param == "sandboxed":
        need_bubblewrap()
    options = {"use_sandbox": request.param == "sandboxed", "allowed_hosts": ("127.0.0.1",)}
    world = LocalWorld(folder=tmp_path / "local", options=options)
    yield world
    await world.close()


@pytest.fixture
def web() -> Iterator[str]:
    """A small server with odd replies."""

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/away":
                self.send_response(302)
                self.send_header("Location", "http://10.1.2.3/secret")
                self.end_headers()
                return
            if self.path == "/round":
                self.send_response(302)
                self.send_header("Location", "/round")
                self.end_headers()
                return
            body = b"from afar\n"
            self.send_response(404 if self.path == "/absent" else 200)
            self.send_header("Content-Length", str(len(body) + (5 if self.path == "/short" else 0)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def contents(seen: Observation) -> dict[str, bytes]:
    """What was collected, by path; every digest is checked on the way."""
    found = {}
    for output in seen.outputs:
        data = Path(output.location).read_bytes()
        assert (len(data), sha256(data)) == (output.size_bytes, output.sha256)
        found[output.path] = data
    return found


async def test_inputs_are_where_they_are_promised(world: LocalWorld, tmp_path: Path, web: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("in a folder\n")
    (tmp_path / "one.txt").write_text("a file\n")
    inputs = (
        ResolvedInput(name="data", kind="path", source=str(tmp_path / "data")),
        ResolvedInput(name="one.txt", kind="path", source=str(tmp_path / "one.txt")),
        ResolvedInput(name="note", kind="text", source="inline\n"),
        ResolvedInput(name="far", kind="http", source=web + "/page", sha256=sha256(b"from afar\n")),
    )
    script = 'cd "$PLACET_INPUTS" && cat data/a.txt one.txt note far'
    seen = await world.run(launch_of(shell(script), "in", inputs=inputs))
    assert seen.computed, seen
    assert world.path("in", "logs", "stdout").read_text() == "in a folder\na file\ninline\nfrom afar\n"


@pytest.mark.bubblewrap
async def test_inputs_and_outputs_have_their_absolute_names(tmp_path: Path) -> None:
    world = LocalWorld(folder=tmp_path / "local")
    (tmp_path / "one.txt").write_text("a file\n")
    inputs = (ResolvedInput(name="one", kind="path", source=str(tmp_path / "one.txt")),)
    script = (
        "cat /inputs/one > /outputs/copy; ! echo x 2>/dev/null > /inputs/one; ! touch /etc/x 2>/dev/null;"
        f" ! ls {tmp_path}/local/supervisor 2>/dev/null; ls / | grep -c puts; echo t > /tmp/t; pwd"
    )
    seen = await world.run(launch_of(shell(script, outputs=outputs(copy="/outputs/copy")), "abs", inputs=inputs))
    await world.close()
    said = world.path("abs", "logs", "stdout").read_text().split()
    assert said == ["2", str(world.path("abs", "work"))], world.path("abs", "logs", "stderr").read_text()
    assert contents(seen) == {"copy": b"a file\n"}
    assert (tmp_path / "one.txt").read_text() == "a file\n"
    assert "paths:bubblewrap" in dict(seen.evidence)["mechanisms"]


@pytest.mark.bubblewrap
@pytest.mark.parametrize("around", ["elsewhere", "script", "workdir"])
async def test_the_data_folder_is_hidden_whatever_is_named_around_it(tmp_path: Path, around: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").write_text("secret")
    world = LocalWorld(folder=data / "local", options={"sandbox": "bubblewrap", "hidden": (data,)})
    look = (
        f"import os, pathlib; data = pathlib.Path({str(data)!r});"
        "print(*(p.name for p in data.iterdir()), *(p.name for p in (data / 'local').iterdir()))\n"
    )
    (tmp_path / "look.py").write_text(look)
    if around == "script":
        spec = Spec(runtime=Runtime(kind=RuntimeKind.PYTHON, script=str(tmp_path / "look.py")))
    else:
        folder = str(tmp_path) if around == "workdir" else None
        runtime = Runtime(kind=RuntimeKind.PROCESS, command=("python3", "-c", look), working_directory=folder)
        spec = Spec(runtime=runtime)
    seen = await world.run(launch_of(spec, "look"), 60)
    await world.close()
    assert seen.computed, world.path("look", "logs", "stderr").read_text()
    shown = set(world.path("look", "logs", "stdout").read_text().split())
    assert shown - {"environments"} == {"local", "attempts"}, "no token, no supervisor"


@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("script", "cause", "exit_code", "signal"),
    [
        ("exit 3", Cause.EXIT_CODE, 3, None),
        ("exit 137", Cause.EXIT_CODE, 137, None),
        ("kill -9 $$", Cause.KILLED, None, 9),
        ("kill -TERM $$", Cause.SIGNAL, None, 15),
    ],
)
async def test_the_sandbox_tells_signals_from_codes(
    tmp_path: Path, script: str, cause: Cause, exit_code: int | None, signal: int | None
) -> None:
    world = LocalWorld(folder=tmp_path / "local", options={"sandbox": "bubblewrap"})
    seen = await world.run(launch_of(shell(script), "end"))
    await world.close()
    assert (seen.cause, seen.exit_code, seen.signal) == (cause, exit_code, signal)


@pytest.mark.bubblewrap
async def test_the_sandbox_stops_with_grace_and_proves_a_start_failure(tmp_path: Path) -> None:
    from placet.domain.allocations import Phase
    from placet.testing.conformance.provider import ended, in_phase
    from tests.support.local import process_spec
    from tests.support.waiting import wait_until

    world = LocalWorld(folder=tmp_path / "local", options={"sandbox": "bubblewrap"})
    provider = await world.provider()
    polite = "trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
    handle = await provider.submit(launch_of(shell(polite), "polite"))
    await in_phase(provider, handle, Phase.RUNNING)
    wait_until(lambda: world.path("polite", "logs", "stdout").exists(), 10, "the trap to be set")
    await provider.cancel(handle, 20)
    assert (await ended(provider, handle)).exit_code == 7
    absent = await world.run(launch_of(process_spec("/no/such/program"), "absent"))
    await world.close()
    assert absent.cause is Cause.START_FAILED
    assert dict(absent.evidence)["start_errno"] == "ENOENT"


async def test_a_missing_input_is_refused_before_anything(world: LocalWorld) -> None:
    provider = await world.provider()
    inputs = (ResolvedInput(name="x", kind="path", source="/no/such/file"),)
    with pytest.raises(InvalidRequest, match="is not there"):
        await provider.submit(launch_of(shell("exit 0"), "none", inputs=inputs))
    assert not world.path("none").exists()


async def test_a_pipe_is_no_input_and_holds_up_nobody(world: LocalWorld, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    inputs = (ResolvedInput(name="x", kind="path", source=str(tmp_path / "pipe")),)
    ended = await world.run(launch_of(shell("exit 0"), "piped", inputs=inputs), 10)
    assert ended.cause is Cause.INPUT
    assert "neither a file nor a folder" in ended.message
    assert (await world.run(launch_of(shell("exit 0"), "next"), 10)).computed


@pytest.mark.parametrize(
    ("page", "sha", "word"),
    [
        ("/absent", None, "status 404"),
        ("/short", None, "broke off"),
        ("/page", "0" * 64, "SHA-256"),
        ("/away", None, "listed"),
        ("/round", None, "redirects"),
    ],
)
async def test_a_bad_download_is_an_input_failure(
    tmp_path: Path, web: str, page: str, sha: str | None, word: str
) -> None:
    options = {"use_sandbox": False, "allowed_hosts": ("127.0.0.1",)}
    world = LocalWorld(folder=tmp_path / "local", options=options)
    inputs = (ResolvedInput(name="far", kind="http", source=web + page, sha256=sha),)
    seen = await world.run(launch_of(shell("exit 0"), "bad", inputs=inputs))
    await world.close()
    assert seen.cause is Cause.INPUT
    assert word in seen.message
    assert dict(seen.evidence)["ran"] == "no"


async def test_loopback_is_not_fetched_unless_it_is_listed(tmp_path: Path, web: str) -> None:
    world = LocalWorld(folder=tmp_path / "local", options={"use_sandbox": False})
    inputs = (ResolvedInput(name="far", kind="http", source=web + "/page"),)
    seen = await world.run(launch_of(shell("exit 0"), "loop", inputs=inputs))
    await world.close()
    assert seen.cause is Cause.INPUT


async def test_outputs_by_path_folder_and_pattern(world: LocalWorld) -> None:
    script = (
        "mkdir -p deep/er; echo 1 > one.txt; echo 2 > deep/two.txt; echo 3 > deep/er/three.txt; echo n > deep/no.bin;"
        ' mkdir -p "$PLACET_OUTPUTS/set"; echo p > "$PLACET_OUTPUTS/set/p.jsonl"'
    )
    declared = outputs(single="one.txt", folder="deep", pattern="deep/**/*.txt", set="/outputs/set/p.jsonl", lost="x")
    seen = await world.run(launch_of(shell(script, outputs=declared), "out"))
    assert seen.computed
    assert seen.missing == ("lost",)
    names = sorted((output.name, output.path) for output in seen.outputs)
    assert names == [
        ("folder", "deep/er/three.txt"),
        ("folder", "deep/no.bin"),
        ("folder", "deep/two.txt"),
        ("pattern", "deep/er/three.txt"),
        ("pattern", "deep/two.txt"),
        ("set", "set/p.jsonl"),
        ("single", "one.txt"),
    ]
    assert contents(seen)["deep/two.txt"] == b"2\n"


async def test_outputs_never_come_through_a_link(world: LocalWorld, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("canary")
    script = (
        f"S={tmp_path}/secret; ln -s $S/file out; ln -s $S folder; mkdir real; ln -s $S real/in;"
        " ln -s $S/file real/leaf; mkfifo real/pipe; echo fine > real/fine"
    )
    declared = outputs(link="out", through="folder/file", below="real", pattern="*/file")
    seen = await world.run(launch_of(shell(script, outputs=declared), "links"))
    assert contents(seen) == {"real/fine": b"fine\n"}
    assert set(seen.missing) == {"link", "through", "pattern"}
    assert any("symbolic link" in note for note in seen.skipped)
    assert any("pipe" in note for note in seen.skipped)


async def test_large_outputs_are_collected_beside_the_loop(world: LocalWorld) -> None:
    script = "dd if=/dev/urandom of=big bs=1M count=24 2>/dev/null; ln big twin; echo small > small"
    seen = await world.run(launch_of(shell(script, outputs=outputs(all="*")), "big"))
    found = contents(seen)
    assert sorted(found) == ["big", "small", "twin"]
    assert found["big"] == found["twin"]


async def test_names_that_mean_trouble_are_left_out(world: LocalWorld) -> None:
    script = "mkdir d; touch d/good \"$(printf 'd/new\\nline')\" \"$(printf 'd/bad\\377')\" d/Good"
    seen = await world.run(launch_of(shell(script, outputs=outputs(all="d")), "names"))
    assert [output.path for output in seen.outputs] == ["d/Good"]
    reasons = " ".join(seen.skipped)
    assert "control characters" in reasons
    assert "not UTF-8" in reasons
    assert "only in case" in reasons


async def test_outputs_of_a_failed_program_are_kept(world: LocalWorld) -> None:
    seen = await world.run(launch_of(shell("echo part > part; exit 9", outputs=outputs(part="part")), "part"))
    assert seen.exit_code == 9
    assert contents(seen) == {"part": b"part\n"}


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
async def test_output_paths_outside_are_refused(world: LocalWorld, path: str) -> None:
    provider = await world.provider()
    with pytest.raises(InvalidRequest):
        await provider.submit(launch_of(shell("exit 0", outputs=outputs(x=path)), "outside"))


async def test_checkpoints_outlive_an_attempt(world: LocalWorld) -> None:
    from dataclasses import replace

    spec = shell(
        'cat "$PLACET_CHECKPOINTS/step" 2>/dev/null; echo 5 > "$PLACET_CHECKPOINTS/step"', repeat=Repeat.RESUMABLE
    )
    first = launch_of(spec, "first")
    again = launch_of(spec, "again")
    again = replace(again, tag=replace(again.tag, workload_id=first.tag.workload_id, epoch=2))
    await world.run(first)
    await world.run(again)
    assert world.path("again", "logs", "stdout").read_text() == "5\n"


async def test_checkpoints_that_nobody_used_for_long_are_let_go(tmp_path: Path) -> None:
    """When a server comes and every hour; never those of a workload that is known here."""
    world = LocalWorld(folder=tmp_path / "local", options={"use_sandbox": False, "checkpoint_days": 2.0})
    kept = tmp_path / "local" / "checkpoints"
    spec = shell('echo 5 > "$PLACET_CHECKPOINTS/step"', repeat=Repeat.RESUMABLE)
    try:
        launches = {name: launch_of(spec, name) for name in ("known", "old", "writing", "young")}
        handles = {}
        provider = await world.provider()
        for name, launch in launches.items():
            handles[name] = await provider.submit(launch)
            await ended(provider, handles[name])
        folders = {name: kept / launch.tag.workload_id for name, launch in launches.items()}
        for name, handle in handles.items():
            if name != "known":
                await released(provider, handle)
        for name, days in (("known", 9), ("old", 3), ("writing", 3), ("young", 1)):
            ago_s = time.time() - days * 86400
            os.utime(folders[name] / "step", (time.time(),) * 2 if name == "writing" else (ago_s, ago_s))
            os.utime(folders[name], (ago_s, ago_s))
        await world.provider()
        assert {name for name, folder in folders.items() if folder.exists()} == {"known", "writing", "young"}
    finally:
        await world.close()


async def test_the_disk_limit_counts_outputs_and_scratch(world: LocalWorld) -> None:
    script = 'for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of="$TMPDIR/$i" bs=1M count=1 2>/dev/null; done; sleep 600'
    spec = shell(script, outputs=outputs(x="x"), resources=resources(disk_bytes=4_000_000))
    seen = await world.run(launch_of(spec, "scratch"))
    assert seen.cause is Cause.DISK_LIMIT
