"""What a cluster needs and whether it is there, one thing after the other. A tiny job of seconds looks at one node."""

import os
from pathlib import Path

from placet.adapters.providers.slurm.commands import Commands
from placet.adapters.providers.slurm.options import SlurmOptions
from placet.adapters.providers.slurm.orders import Places, plain
from placet.adapters.providers.slurm.site import Answer, Overdue, Site, Unreachable
from placet.domain.errors import ProviderError
from placet.ports.provider import Examined

PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "sinfo", "scontrol")
WITHIN_S = 15.0
NODE_WITHIN_S = 5
TAIL = 300
WHICH = 'for program in "$@"; do command -v "$program" >/dev/null 2>&1 || echo "$program"; done'
# Says whether the node can write to the folder, and the first Python that will do.
ON_NODE = """
if echo probe >"$1"; then echo writes; fi
for name in "$2" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
    [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 || continue
    "$name" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8)); ' || continue
    echo "python $name"; exit 0
done
"""


async def examine(site: Site, commands: Commands, options: SlurmOptions) -> list[Examined]:
    """All findings, in the order in which one needs the other; after the first that stops all, no more is asked."""
    try:
        answer = await site.run(["/bin/sh", "-c", WHICH, "sh", *PROGRAMS], limit_s=WITHIN_S)
    except (Unreachable, Overdue) as error:
        return [
            _found(
                "host", "missing", str(error), "nothing can be asked", "set providers.slurm.ssh, or mend the way there"
            )
        ]
    absent = answer.out.split()
    if absent:
        means, fix = (
            "the provider cannot work",
            "run the server where Slurm's commands are, or set providers.slurm.path",
        )
        return [_found("commands", "missing", f"no {', '.join(absent)}", means, fix)]
    findings = [_found("commands", "ok", ", ".join(PROGRAMS))]
    try:
        await commands.greet()
    except ProviderError as error:
        fix = (
            "`scontrol ping` on that host says more; check munge, slurm.conf (providers.slurm.conf) and the controller"
        )
        return [*findings, _found("controller", "missing", str(error), "no job can be sent or seen", fix)]
    findings.append(_found("controller", "ok", f"{commands.cluster or 'a cluster'}, {commands.version}"))
    findings.append(_accounts(commands))
    findings += await _partitions(commands, options)
    folder = await _folder(site, options)
    findings.append(folder)
    if folder.state == "ok":
        findings += await _node(site, options)
    return findings


def _accounts(commands: Commands) -> Examined:
    if commands.accounting:
        return _found("accounts", "ok", "sacct answers")
    means = "what ended without a record of its runner, longer ago than MinJobAge, is not known to have ended"
    return _found("accounts", "warning", "the cluster keeps none", means, "let its operator run slurmdbd")


async def _partitions(commands: Commands, options: SlurmOptions) -> list[Examined]:
    try:
        there = {row.partition.name for row in await commands.rows()}
    except ProviderError as error:
        return [_found("partitions", "missing", str(error), "nothing is offered", "`sinfo` on that host says more")]
    absent = sorted({one.name for one in options.partitions} - there)
    if absent or not there:
        found = f"no working node in {', '.join(absent) or 'any of them'}"
        return [_found("partitions", "warning", found, "nothing is offered there", "`sinfo` shows names and states")]
    return [_found("partitions", "ok", ", ".join(sorted(there)))]


async def _folder(site: Site, options: SlurmOptions) -> Examined:
    probe = Places(shared=options.shared).shared / f".probe-{os.getpid()}"
    try:
        await site.make_folder(options.shared)
        await site.write(probe, b"probe\n")
        await site.remove(probe)
    except (OSError, Unreachable, Overdue) as error:
        means, fix = "no attempt can be sent", "set providers.slurm.shared to a folder that nodes and this host share"
        return _found("shared folder", "missing", f"{options.shared}: {error}", means, fix)
    return _found("shared folder", "ok", str(options.shared))


async def _node(site: Site, options: SlurmOptions) -> list[Examined]:
    """Ask one node by a job that begins now or never."""
    probe = options.shared / f".probe-of-node-{os.getpid()}"
    line = ["srun", f"--immediate={NODE_WITHIN_S}", "--time=1", "--nodes=1", "--ntasks=1", "--export=NIL", "--quiet"]
    for part in options.partitions[:1]:
        named = (
            ("partition", part.name),
            ("qos", part.qos),
            ("account", part.account),
            ("reservation", part.reservation),
        )
        line += [f"--{what}={plain(word, what, options.name)}" for what, word in named if word]
    try:
        answer = await site.run(
            [*line, "/bin/sh", "-c", ON_NODE, "sh", str(probe), options.python], limit_s=WITHIN_S * 2
        )
    except (Unreachable, Overdue) as error:
        return [_found("node", "off", f"not asked: {error}")]
    if not answer.good:
        return [_found("node", "off", f"not asked, none was free at once: {answer.err.strip()[-TAIL:]}")]
    return await _told(site, options, probe, answer)


async def _told(site: Site, options: SlurmOptions, probe: Path, answer: Answer) -> list[Examined]:
    seen = await site.read(probe) is not None
    await site.remove(probe)
    writes = "writes" in answer.out.split("\n")
    findings = [_found("folder on a node", "ok", str(options.shared))]
    if not writes or not seen:
        found = "a node cannot write to it" if not writes else "what a node wrote there is not seen here"
        fix = "set providers.slurm.shared to a folder of a file system that all nodes share"
        findings = [_found("folder on a node", "missing", f"{options.shared}: {found}", "every attempt is lost", fix)]
    python = [text.removeprefix("python ") for text in answer.out.split("\n") if text.startswith("python ")]
    if python:
        return [*findings, _found("python on a node", "ok", python[0])]
    fix = "load it by providers.slurm.prologue, or name it by providers.slurm.python"
    means = "inputs, outputs and the runtime python do not work"
    return [*findings, _found("python on a node", "missing", "none of 3.8 or newer", means, fix)]


def _found(name: str, state: str, found: str, means: str = "", fix: str = "") -> Examined:
    return Examined(name=name, state=state, found=found, means=means, fix=fix)
