"""Real programs for the laws of a provider: shell scripts that leave a trace outside of all that a provider knows."""

from pathlib import Path
from typing import assert_never

from placet.domain.spec import Spec
from placet.testing.conformance.provider import Behaviour
from tests.support.local import outputs, process_spec, shell


def traced(behaviour: Behaviour, trace: Path) -> Spec:
    """A program that behaves so and adds a line to the trace when it begins."""
    begin = f"echo begun >> {trace}; "
    match behaviour:
        case Behaviour.SUCCEED:
            return shell(begin + "exit 0")
        case Behaviour.EXIT_3:
            return shell(begin + "exit 3")
        case Behaviour.HOLD:
            return shell(begin + "sleep 600 & wait")
        case Behaviour.TALK:
            return shell(begin + "printf 'one\\ntwo\\nthree\\n'")
        case Behaviour.WRITE:
            return shell(begin + "printf 'one\\ntwo\\nthree\\n' > told.txt", outputs=outputs(told="told.txt"))
        case Behaviour.MISSING:
            return process_spec("/no/such/program")
        case _:
            assert_never(behaviour)


def begun(trace: Path) -> int:
    """How often the program began."""
    return len(trace.read_text().splitlines()) if trace.exists() else 0
