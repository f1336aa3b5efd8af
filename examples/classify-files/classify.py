"""Names the type of every file in a folder with Magika's neural network, and writes what it found.

Reads   $PLACET_INPUTS/<name>/...   one folder per declared input
Writes  $PLACET_OUTPUTS/predictions.jsonl   one line per file: path, label, score, group, size
        $PLACET_OUTPUTS/summary.json        counts, and the files whose name says something else
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from magika import Magika
from magika.types import MagikaResult

BATCH_FILES = 64
SURE_SCORE = 0.5
IGNORED_FOLDERS = {".git", ".venv", "__pycache__"}

Prediction = dict[str, str | float | int]


def main() -> int:
    inputs = Path(os.environ.get("PLACET_INPUTS", "."))
    outputs = Path(os.environ.get("PLACET_OUTPUTS", "out"))
    outputs.mkdir(parents=True, exist_ok=True)
    # An input may itself be a link to a file or a folder elsewhere, so each is walked by its own name.
    files = sorted(path for entry in inputs.iterdir() for path in files_under(entry))
    if not files:
        print(f"nothing to classify: no files under {inputs}", file=sys.stderr)
        return 2
    began_s = perf_counter()
    network = Magika()
    print(f"model {network.get_model_name()} loaded in {perf_counter() - began_s:.2f} s; {len(files)} files to read")
    began_s = perf_counter()
    predictions: list[Prediction] = []
    surprises: list[Prediction] = []
    with (outputs / "predictions.jsonl").open("w", encoding="utf-8") as lines:
        for start in range(0, len(files), BATCH_FILES):
            batch = files[start : start + BATCH_FILES]
            for path, found in zip(batch, network.identify_paths(batch), strict=True):
                prediction = predicted(shown(path.relative_to(inputs)), path.stat().st_size, found)
                lines.write(json.dumps(prediction, ensure_ascii=False) + "\n")
                predictions.append(prediction)
                if is_surprise(path, found):
                    surprises.append(prediction)
            print(f"{len(predictions)}/{len(files)} files", flush=True)
    summary = summed(predictions, surprises, network.get_model_name(), perf_counter() - began_s)
    (outputs / "summary.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"done: {len(predictions)} files, {len(summary['labels'])} types, {len(surprises)} surprises")
    return 0


def files_under(root: Path) -> Iterator[Path]:
    """Below the root, regular files only: a link could lead out of the input and a pipe would never end."""
    if root.name in IGNORED_FOLDERS:
        return
    if root.is_file():
        yield root
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in IGNORED_FOLDERS)
        for name in names:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def shown(path: Path) -> str:
    """A name may hold any bytes but JSON text may not: those that are not UTF-8 become \\xNN."""
    return os.fsencode(path).decode("utf-8", errors="backslashreplace")


def predicted(path: str, size_bytes: int, found: MagikaResult) -> Prediction:
    if not found.ok:
        return {"path": path, "label": "unreadable", "score": 0.0, "group": "unknown", "size": size_bytes}
    return {
        "path": path,
        "label": str(found.output.label),
        "score": round(float(found.score), 4),
        "group": found.output.group,
        "size": size_bytes,
    }


def is_surprise(path: Path, found: MagikaResult) -> bool:
    """The network is sure, knows how such files are called, and this one is called otherwise."""
    suffix = path.suffix.lstrip(".").lower()
    if not found.ok or not suffix or found.score < SURE_SCORE:
        return False
    return bool(found.output.extensions) and suffix not in found.output.extensions


def summed(
    predictions: Sequence[Prediction], surprises: Sequence[Prediction], model: str, elapsed_s: float
) -> dict[str, object]:
    return {
        "model": model,
        "files": len(predictions),
        "bytes": sum(int(prediction["size"]) for prediction in predictions),
        "seconds": round(elapsed_s, 3),
        "files_per_second": round(len(predictions) / elapsed_s, 1),
        "labels": dict(Counter(str(prediction["label"]) for prediction in predictions).most_common()),
        "groups": dict(Counter(str(prediction["group"]) for prediction in predictions).most_common()),
        "unsure": [prediction["path"] for prediction in predictions if float(prediction["score"]) < SURE_SCORE],
        "surprises": [{"path": found["path"], "label": found["label"]} for found in surprises],
    }


if __name__ == "__main__":
    sys.exit(main())
