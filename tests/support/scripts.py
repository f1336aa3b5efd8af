"""A provider of three kinds of program: one works and writes an output, one fails, one has to be stopped."""

import hashlib
from pathlib import Path

from placet.adapters.ambient import SystemClock
from placet.domain.allocations import FoundOutput, Launch
from placet.domain.failures import Cause
from placet.testing.scripted import Script, ScriptedProvider


def works_fails_stopped(folder: Path) -> ScriptedProvider:
    """What happens is told by the first word of the command; the output ``answer`` stands in the folder."""
    source = folder / "answer.txt"
    source.write_bytes(b"42\n")
    sha256 = hashlib.sha256(b"42\n").hexdigest()
    found = FoundOutput(name="answer", path="answer.txt", size_bytes=3, location=str(source), sha256=sha256)
    scripts = {
        "works": Script(outputs=(found,), logs=(("stdout", b"hello\n"),)),
        "fails": Script(cause=Cause.EXIT_CODE, exit_code=4),
        "stopped": Script(hold=True),
    }

    def script(launch: Launch) -> Script:
        return scripts[launch.spec.runtime.command[0]]

    return ScriptedProvider(SystemClock(), script)
