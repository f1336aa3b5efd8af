"""Pins what the Python examples import: requirements.in -> requirements.txt -> the list at the end of workload.yaml.

usage: python examples/pin.py            pins anew; needs uv
       python examples/pin.py --check    says whether workload.yaml has what requirements.txt says
"""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent
LIST_HEAD = "  requirements:"
COMPILE = (
    "pip compile --quiet --no-config --universal --generate-hashes --python-version 3.11 --no-header --no-annotate "
    "--no-emit-index-url --no-emit-find-links requirements.in -o requirements.txt"
)


def main() -> int:
    folders = sorted(path.parent for path in EXAMPLES.glob("*/requirements.in"))
    if sys.argv[1:] == ["--check"]:
        stale = [folder.name for folder in folders if not is_current(folder)]
        print("\n".join(f"{name}: workload.yaml and requirements.txt differ" for name in stale) or "current")
        return len(stale)
    for folder in folders:
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv if uv.exists() else "uv", *COMPILE.split()], cwd=folder, check=True)
        spec = folder / "workload.yaml"
        spec.write_text(with_pins(spec.read_text(), pins(folder)))
        print(f"{folder.name}: {len(pins(folder))} pins")
    return 0


def is_current(folder: Path) -> bool:
    text = (folder / "workload.yaml").read_text()
    return with_pins(text, pins(folder)) == text


def pins(folder: Path) -> list[list[str]]:
    """Each requirement with its hashes, in pieces that fit on a line."""
    whole = (folder / "requirements.txt").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in whole.splitlines() if line.strip() and not line.startswith("#")]
    return [[part.strip() for part in line.replace("--hash=", "\n--hash=").split("\n")] for line in lines]


def with_pins(spec: str, pinned: list[list[str]]) -> str:
    """The list is the last thing in the document, so that people need not read past it."""
    head, found, _ = spec.partition(LIST_HEAD + "\n")
    if not found:
        raise SystemExit(f"no line {LIST_HEAD!r} in the spec")
    items = ["    - >-\n" + "".join(f"      {part}\n" for part in parts) for parts in pinned]
    return head + found + "".join(items)


if __name__ == "__main__":
    sys.exit(main())
