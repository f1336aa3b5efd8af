"""Literal values that look like credentials. They are warned of, never refused: some only look so."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from placet.domain.problems import Problem
from placet.domain.spec import Spec

_KNOWN = re.compile(
    r"(?:sk-|sk_live_|rk_live_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|hf_|AKIA|ASIA|AIza|ya29\.|npm_|dop_v1_|SG\.)"
    r"[A-Za-z0-9_.-]{12,}|-----BEGIN [A-Z ]{0,30}PRIVATE KEY|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}",
    re.ASCII,
)
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|(^|_)KEY$", re.IGNORECASE)
_LOOKED_AT = 4_096
_ENTROPY_BITS = 3.2
_LENGTH_LEAST = 12


def suspicious(spec: Spec) -> Iterator[Problem]:
    """One warning per variable or argument that looks like a credential; the value itself is not repeated."""
    for name, value in spec.environment:
        if looks_secret(name, value):
            yield _warning(f"environment.{name}", f"the value of {name} looks like a credential")
    for index, item in enumerate(spec.array):
        for name, value in item.environment:
            if looks_secret(name, value):
                yield _warning(f"array[{index}].environment.{name}", f"the value of {name} looks like a credential")
    arguments = "arguments" if spec.runtime.arguments else "command"
    for index, word in enumerate(spec.runtime.arguments or spec.runtime.command):
        if _KNOWN.search(word[:_LOOKED_AT]):
            yield _warning(f"runtime.{arguments}[{index}]", "an argument holds what looks like a credential")
    for name, value in spec.secrets:
        if _KNOWN.search(value):
            yield _warning(f"secrets.{name}", f"{name} should name a secret, and looks like one")


def looks_secret(name: str, value: str) -> bool:
    """A known form of token, or a random-looking value under a name that says so."""
    if _KNOWN.search(value[:_LOOKED_AT]):
        return True
    if not _SECRET_NAME.search(name) or len(value) < _LENGTH_LEAST or any(letter.isspace() for letter in value[:200]):
        return False
    return _entropy_bits(value[:200]) >= _ENTROPY_BITS and "/" not in value[:1]


def _entropy_bits(text: str) -> float:
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())


def _warning(field: str, what: str) -> Problem:
    return Problem(
        code="secret_in_environment",
        field=field,
        what=what,
        why="specs are stored and shown to everyone who may see the workload",
        fix="let the program read it from a file on its machine; if it is no credential, nothing needs to be done",
    )
