"""What is wrong with a request, said so that a person or a program can mend it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One mistake: a stable code, where, what, why, and the smallest change that helps.

    ``field`` is a path such as ``resources.cpu_cores`` or ``outputs[0].path``; ``line`` counts from 1 in the document.
    """

    code: str
    field: str
    what: str
    why: str
    fix: str
    line: int | None = None
