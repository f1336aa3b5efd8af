"""The Slurm provider keeps the laws of a provider, on a real Slurm."""

import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from placet.adapters.ambient import SystemClock
from placet.adapters.providers.slurm.options import Partition, SlurmOptions
from placet.adapters.providers.slurm.provider import SlurmProvider
from placet.adapters.providers.slurm.site import HereSite, run_here
from placet.domain.allocations import Handle, Launch, Phase
from placet.domain.errors import Unavailable
from placet.domain.failures import Cause
from placet.domain.offers import Offer
from placet.domain.spec import Runtime, RuntimeKind, Spec
from placet.ports.provider import Provider
from placet.testing.conformance.provider import (
    Behaviour,
    Fault,
    Listener,
    ProviderBench,
    ProviderContract,
    ended,
    in_phase,
    observe,
    read,
    released,
)
from placet.testing.conformance.provider_faults import LAWS
from placet.testing.conformance.provider_law import Law, trial_on
from tests.support.local import alive, launch_of, process_spec, resources, shell
from tests.support.missing import missing
from tests.support.programs import begun, traced
from tests.support.slurm import Cluster, SlurmWorld
from tests.support.sshd import Door
from tests.support.waiting import wait_until_async

# What the wire to the cluster can be made to do (``tests/support/slurm_faults.py``). Preempted and lost machines, and
# what is begun again by hand, are in ``TestDeaths``, where the cluster really does it.
PLAYED = (
    Fault.LOST_REQUEST,
    Fault.LOST_REPLY,
    Fault.SERVER_ERROR,
    Fault.EMPTY_HANDLE,
    Fault.LATE_VISIBLE,
    Fault.NO_CAPACITY,
    Fault.NO_QUOTA,
    Fault.UNKNOWN_STATE,
)
_roots = itertools.count(1)


class SlurmBench(ProviderBench):
    """Programs that leave a trace outside of everything the provider knows."""

    def __init__(self, world: SlurmWorld, traces: Path) -> None:
        self.world = world
        self._traces = traces
        traces.mkdir(exist_ok=True)

    async def connect(self, listener: Listener) -> Provider:
        return await self.world.connect(listener)

    def launch(self, behaviour: Behaviour, key: str) -> Launch:
        return on_the_cluster(traced(behaviour, self._traces / key), key)

    def impossible(self, key: str) -> Launch:
        image = Runtime(kind=RuntimeKind.CONTAINER, image="registry.example.com/x:1")
        return on_the_cluster(Spec(runtime=image), key)

    def oversized(self, key: str) -> Launch:
        spec = process_spec("/bin/true", resources=resources(cpu_cores=Decimal(10_000)))
        return on_the_cluster(spec, key)

    def faulty(self, fault: Fault, key: str) -> Launch | None:
        if fault not in PLAYED:
            return None
        self.world.plan.faults[key] = fault
        return self.launch(Behaviour.HOLD if fault is Fault.UNKNOWN_STATE else Behaviour.SUCCEED, key)

    async def started(self, key: str) -> int:
        return begun(self._traces / key)

    async def alive(self, key: str) -> int:
        return len(alive(f"PLACET_ATTEMPT_KEY={key}"))

    async def cut(self, provider: Provider) -> None:
        await provider.close()


class TestSlurm(ProviderContract):
    @pytest.fixture
    async def bench(self, slurm_cluster: Cluster, tmp_path: Path) -> AsyncIterator[ProviderBench]:
        world = SlurmWorld(cluster=slurm_cluster, shared=slurm_cluster.shared / f"laws-{next(_roots)}")
        yield SlurmBench(world, tmp_path / "traces")
        await world.close()


# What goes another way than on this machine: commands, files, outputs. The ways themselves are tried by
# ``test_slurm_sites``.
BY_SSH = ("outputs-are-what-was-announced",)


class TestBySsh:
    """The laws whose ways differ where the cluster is another machine."""

    @pytest.mark.parametrize("law", [law for law in LAWS if law.name in BY_SSH], ids=lambda law: law.name)
    async def test_law(self, law: Law, slurm_cluster: Cluster, ssh_door: Door, tmp_path: Path) -> None:
        shared = slurm_cluster.shared / f"ssh-{next(_roots)}"
        slower = {"watch_s": 1.0, "fresh_s": 1.0}  # each look costs a command there
        world = SlurmWorld(cluster=slurm_cluster, shared=shared, ssh=ssh_door.program, options=slower)
        bench = SlurmBench(world, tmp_path / "traces")
        bench.prefix = "ssh-"
        async with trial_on(bench) as trial:
            assert not trial.provider.card.outputs_are_files
            await law.holds(trial)
            handle = await trial.provider.submit(trial.launch(Behaviour.TALK, "log"))
            await ended(trial.provider, handle)
            chunks = await read(trial.provider, handle, "stdout", 4)
            assert b"".join(chunk.data for chunk in chunks) == b"two\nthree\n"
            await released(trial.provider, handle)
        await world.close()


class TestDeaths:
    """Each way to die: its cause, and nothing of it is left."""

    @pytest.fixture
    async def world(self, slurm_cluster: Cluster) -> AsyncIterator[SlurmWorld]:
        world = SlurmWorld(cluster=slurm_cluster, shared=slurm_cluster.shared / f"deaths-{next(_roots)}")
        yield world
        await world.close()

    @pytest.mark.parametrize(
        ("script", "cause", "code", "number"),
        [
            ("exit 7", Cause.EXIT_CODE, 7, None),
            ("kill -SEGV $$", Cause.SIGNAL, None, 11),
            ("kill -KILL $$", Cause.KILLED, None, 9),
        ],
        ids=["exit-7", "sigsegv", "sigkill"],
    )
    async def test_of_its_own(
        self, world: SlurmWorld, script: str, cause: Cause, code: int | None, number: int | None
    ) -> None:
        provider = await world.connect(Listener())
        handle = await provider.submit(on_the_cluster(shell(script), f"own-{cause.value}"))
        last = await ended(provider, handle)
        assert (last.cause, last.exit_code, last.signal) == (cause, code, number), last
        assert not last.computed
        await nothing_is_left(world, provider, handle)

    async def test_for_lack_of_memory(self, world: SlurmWorld) -> None:
        if not world.cluster.groups:
            missing("no control groups that can be written: the cluster cannot prove that memory ran out")
        provider = await world.connect(Listener())
        greedy = process_spec(sys.executable, "-c", "x = [bytearray(10**6) for _ in range(600)]")
        launch = on_the_cluster(replace(greedy, resources=resources(memory_bytes=100 * 10**6)), "memory")
        handle = await provider.submit(launch)
        last = await ended(provider, handle)
        assert last.cause is Cause.OUT_OF_MEMORY, last
        await nothing_is_left(world, provider, handle)

    async def test_by_the_time_limit(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        launch = on_the_cluster(shell("sleep 600 & wait"), "time")
        handle = await provider.submit(replace(launch, runtime_s=Decimal(1)))
        last = await ended(provider, handle)
        assert last.cause is Cause.TIMEOUT, last
        await nothing_is_left(world, provider, handle)

    async def test_cancelled_while_it_waits(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        world.cluster.ask("scontrol", "update", "partition=main", "state=DOWN")
        try:
            handle = await provider.submit(on_the_cluster(shell("touch began"), "waiting"))
            seen = await in_phase(provider, handle, Phase.QUEUED)
            assert seen.message, "it says why it waits"
            await provider.cancel(handle, 0.0)
            last = await ended(provider, handle)
        finally:
            world.cluster.ask("scontrol", "update", "partition=main", "state=UP")
        assert last.cause is Cause.STOPPED, last
        assert last.started_ms is None
        await nothing_is_left(world, provider, handle)

    async def test_cancelled_at_the_cluster(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        handle = await running(provider, "scancel")
        world.cluster.ask("scancel", handle.native_id)
        last = await ended(provider, handle)
        assert last.cause is Cause.STOPPED, last
        assert "CANCELLED" in last.message
        await nothing_is_left(world, provider, handle)

    async def test_with_its_node(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        handle = await running(provider, "node")
        node = dict((await observe(provider, handle)).evidence)["nodes"]
        world.cluster.ask("scontrol", "update", f"nodename={node}", "state=DOWN", "reason=test")
        try:
            last = await ended(provider, handle)
        finally:
            # It comes back by itself as soon as it is heard of; then there is nothing to resume.
            world.cluster.code("scontrol", "update", f"nodename={node}", "state=RESUME")
            world.cluster.wait_idle()
        assert last.cause is Cause.LOST, last
        await nothing_is_left(world, provider, handle)

    async def test_preempted(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        handle = await running(provider, "preempted")
        urgent = [
            "sbatch",
            "--parsable",
            "-p",
            "urgent",
            "-N2",
            "--exclusive",
            "-t1",
            "-o/dev/null",
            "--wrap=sleep 600",
        ]
        other = world.cluster.ask(*urgent).strip()
        try:
            last = await ended(provider, handle)
        finally:
            world.cluster.ask("scancel", other)
        assert last.cause is Cause.PREEMPTED, last
        assert last.exit_code is None
        await nothing_is_left(world, provider, handle)

    async def test_of_its_runner(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        handle = await running(provider, "runner")
        claim = json.loads((world.shared / "attempts" / handle.key / "claim.json").read_text())
        os.kill(claim["pid"], signal.SIGKILL)
        last = await ended(provider, handle)
        assert last.cause is Cause.KILLED, last
        await nothing_is_left(world, provider, handle)

    async def test_of_the_controller_for_a_while(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        gate = world.shared / "gate"
        handle = await running(provider, "controller", f"until [ -e {gate} ]; do sleep 0.1; done; echo well")
        world.cluster.kill("slurmctld")
        try:
            with pytest.raises(Unavailable):
                await provider.find(handle.key)
            gate.touch()
        finally:
            world.cluster.start_controller()
        last = await ended(provider, handle, 60.0)
        assert last.computed, last
        world.cluster.wait_for_controller()
        await nothing_is_left(world, provider, handle)

    @pytest.mark.parametrize("text", ['{"phase": "ended"}', "[]"])
    async def test_a_status_that_is_nonsense_ends_nothing(self, world: SlurmWorld, text: str) -> None:
        provider = await world.connect(Listener())
        forge = f"while :; do echo '{text}' > ../../status.json; sleep 0.1; done"
        handle = await provider.submit(on_the_cluster(shell(forge), "nonsense"))
        status = world.shared / "attempts" / handle.key / "status.json"
        await wait_until_async(lambda: status.exists() and status.read_text().strip() == text, 30.0, "the nonsense")
        seen = await observe(provider, handle)
        assert seen.phase is not Phase.ENDED or not seen.computed, seen
        other = await running(provider, "beside")  # its permit is still given
        await nothing_is_left(world, provider, other)
        await nothing_is_left(world, provider, handle)

    async def test_begun_again_by_hand(self, world: SlurmWorld) -> None:
        provider = await world.connect(Listener())
        trace = world.shared / "trace"
        handle = await running(provider, "again", f"echo begun >> {trace}; sleep 600 & wait")
        folder = world.shared / "attempts" / handle.key
        script = (folder / "again.sh").resolve()
        programs = world.shared / "runner"
        runner = next(programs.glob("*.pyz"))
        script.write_text(f"#!/bin/sh\nexec /bin/sh {programs}/bootstrap.sh {runner} {folder}\n")
        line = ["sbatch", "--parsable", f"--job-name={handle.key}", f"--output={folder}/again.log", str(script)]
        second = world.cluster.ask(*line).strip()
        ask_code = ["sacct", "-X", "-n", "-P", f"--jobs={second}", "--format=State,ExitCode"]
        await wait_until_async(lambda: world.cluster.ask(*ask_code).strip() == "FAILED|94:0", 30.0, "end of the second")
        assert begun(trace) == 1
        [found] = await provider.find(handle.key)
        assert found.native_id == handle.native_id, "the one that holds the claim is the attempt"
        assert (await observe(provider, handle)).phase is Phase.RUNNING
        await nothing_is_left(world, provider, handle)


def on_the_cluster(spec: Spec, key: str) -> Launch:
    return replace(launch_of(spec, key), offer=Offer(id="slurm-main-cpu", provider="slurm"))


async def running(provider: SlurmProvider, key: str, script: str = "sleep 600 & wait") -> Handle:
    handle = await provider.submit(on_the_cluster(shell(script), key))
    await in_phase(provider, handle, Phase.RUNNING)
    return handle


async def nothing_is_left(world: SlurmWorld, provider: SlurmProvider, handle: Handle) -> None:
    await released(provider, handle)
    assert not (world.shared / "attempts" / handle.key).exists()
    assert alive(f"PLACET_ATTEMPT_KEY={handle.key}") == []
    live = world.cluster.ask("squeue", "-h", "-o", "%i", f"--name={handle.key}")
    assert live.split() == []
    assert (await observe(provider, handle)).phase is Phase.GONE


class TestNeeds:
    """What a cluster needs is looked at, and what is missing is told."""

    async def test_all_is_there(self, slurm_cluster: Cluster) -> None:
        world = SlurmWorld(cluster=slurm_cluster, shared=slurm_cluster.shared / f"needs-{next(_roots)}")
        findings = await world.make().examine()
        everything = ["commands", "controller", "accounts", "partitions", "shared folder", "folder on a node"]
        assert [one.name for one in findings] == [*everything, "python on a node"], findings
        assert {one.state for one in findings} == {"ok"}, findings
        assert os.listdir(world.shared) == []

    async def test_a_partition_that_is_not_there(self, slurm_cluster: Cluster) -> None:
        shared = slurm_cluster.shared / f"needs-{next(_roots)}"
        options = {"partitions": (Partition(name="nowhere"),)}
        world = SlurmWorld(cluster=slurm_cluster, shared=shared, options=options)
        found = {one.name: one for one in await world.make().examine()}
        assert found["partitions"].state == "warning"
        assert "nowhere" in found["partitions"].found

    async def test_a_folder_that_cannot_be_written(self, slurm_cluster: Cluster) -> None:
        world = SlurmWorld(cluster=slurm_cluster, shared=Path("/proc/nowhere"))
        last = (await world.make().examine())[-1]
        assert (last.name, last.state) == ("shared folder", "missing")
        assert last.fix

    async def test_no_commands(self, tmp_path: Path) -> None:
        provider = SlurmProvider(SlurmOptions(shared=tmp_path), SystemClock(), HereSite({"PATH": str(tmp_path)}))
        [only] = await provider.examine()
        assert only.state == "missing"


SPEC = """
name: on-a-cluster
runtime: {type: python, script: count.py}
inputs: [{name: text, source: text.txt}]
outputs: [{name: counted, path: /outputs/counted.json}]
constraints: {maximum_runtime_seconds: 60}
"""
SCRIPT = """
import json, os, pathlib
text = pathlib.Path(os.environ["PLACET_INPUTS"], "text").read_text()
target = pathlib.Path(os.environ["PLACET_OUTPUTS"], "counted.json")
target.write_text(json.dumps({"words": len(text.split()), "node": os.environ["SLURMD_NODENAME"]}))
print("counted", flush=True)
"""
SETTINGS = """
data_dir = "{folder}/data"
[local]
enabled = false
[providers.slurm]
enabled = true
shared = "{shared}"
conf = "{conf}"
poll_seconds = 1
settle_seconds = 1
"""


async def test_the_whole_line_through_a_server(slurm_cluster: Cluster, tmp_path: Path) -> None:
    """The same spec as on any machine: its script and input are brought, its output is delivered, nothing is left."""
    shared = slurm_cluster.shared / f"line-{next(_roots)}"
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "count.py").write_text(SCRIPT)
    (tmp_path / "text.txt").write_text("four words of text\n")
    settings = SETTINGS.format(folder=tmp_path, shared=shared, conf=slurm_cluster.conf)
    (tmp_path / "placet.toml").write_text(settings)
    line = [sys.executable, "-m", "placet", "run", "--json", str(tmp_path / "spec.yaml")]
    environment = {**os.environ, "PLACET_CONFIG": str(tmp_path / "placet.toml")}
    answer = await run_here(line, environment, limit_s=100.0)
    assert answer.code == 0, answer.err
    found = list((tmp_path / "data" / "artifacts").rglob("outputs/counted.json"))
    told = json.loads(found[0].read_text())
    assert told["words"] == 4
    assert told["node"].startswith(slurm_cluster.name)
