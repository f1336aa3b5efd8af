"""Trains a small network on scikit-learn's handwritten digits, one checkpoint per epoch, and goes on from the newest.

Reads   $PLACET_CHECKPOINTS/epoch-NNNN.joblib   what an earlier attempt left, if anything
Writes  the same, and at the end $PLACET_OUTPUTS/model.npz and $PLACET_OUTPUTS/metrics.json

EPOCHS=12            how many epochs in all
CRASH_AT_EPOCH=5     for demonstration: an attempt that found no checkpoint dies after writing that one

An interrupted training gives the same weights and the same metrics as one that was not.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter

import joblib
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

SEED = 7
BATCH_ROWS = 64
CHECKPOINTS_KEPT = 2
CRASH_EXIT_CODE = 75


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """How good the network was after an epoch."""

    epoch: int
    train_loss: float
    test_loss: float
    test_accuracy: float


@dataclass(kw_only=True)
class Training:
    """All that must survive a crash."""

    network: MLPClassifier
    history: list[Epoch] = field(default_factory=list)


def main() -> int:
    checkpoints = folder_of("PLACET_CHECKPOINTS", "checkpoints")
    outputs = folder_of("PLACET_OUTPUTS", "out")
    epochs = int(os.environ.get("EPOCHS", "12"))
    crash_at = int(os.environ.get("CRASH_AT_EPOCH", "0"))

    pixels, digits = load_digits(return_X_y=True)
    data = train_test_split(pixels / 16.0, digits, test_size=0.25, random_state=SEED, stratify=digits)
    training = newest(checkpoints)
    resumed_from = training.history[-1].epoch if training.history else None
    print(f"going on after epoch {resumed_from}" if resumed_from else "starting from nothing", flush=True)

    began_s = perf_counter()
    for epoch in range(len(training.history) + 1, epochs + 1):
        after = one_epoch(training, epoch, *data)
        training.history.append(after)
        keep(training, checkpoints)
        print(f"epoch {epoch:3d}  test loss {after.test_loss:.4f}  accuracy {after.test_accuracy:.4f}", flush=True)
        if epoch == crash_at and resumed_from is None:
            print(f"CRASH_AT_EPOCH={crash_at}: dying as asked", file=sys.stderr, flush=True)
            return CRASH_EXIT_CODE
    write_results(training, outputs, resumed_from, perf_counter() - began_s)
    return 0


def folder_of(variable: str, otherwise: str) -> Path:
    folder = Path(os.environ.get(variable, otherwise))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def one_epoch(
    training: Training,
    epoch: int,
    train_pixels: np.ndarray,
    test_pixels: np.ndarray,
    train_digits: np.ndarray,
    test_digits: np.ndarray,
) -> Epoch:
    """The order of the rows depends on the epoch alone, so that a resumed epoch sees them as the first try did."""
    network = training.network
    order = np.random.default_rng([SEED, epoch]).permutation(len(train_pixels))
    for start in range(0, len(order), BATCH_ROWS):
        rows = order[start : start + BATCH_ROWS]
        if len(rows) == BATCH_ROWS:  # the network's optimiser wants batches of one size
            network.partial_fit(train_pixels[rows], train_digits[rows], classes=np.arange(10))
    return Epoch(
        epoch=epoch,
        train_loss=round(float(log_loss(train_digits, network.predict_proba(train_pixels))), 6),
        test_loss=round(float(log_loss(test_digits, network.predict_proba(test_pixels))), 6),
        test_accuracy=round(float(network.score(test_pixels, test_digits)), 6),
    )


def newest(checkpoints: Path) -> Training:
    """The newest checkpoint that can be read; one cut off by a crash is passed over."""
    for path in sorted(checkpoints.glob("epoch-*.joblib"), reverse=True):
        try:
            loaded = joblib.load(path)
        except Exception as error:  # a damaged pickle can fail in any way
            print(f"{path.name} cannot be read ({error}): trying the one before", file=sys.stderr)
            continue
        return Training(network=loaded["network"], history=[Epoch(**epoch) for epoch in loaded["history"]])
    network = MLPClassifier((48,), learning_rate_init=0.003, batch_size=BATCH_ROWS, random_state=SEED, shuffle=False)
    return Training(network=network)


def keep(training: Training, checkpoints: Path) -> None:
    """Written beside and renamed: under the final name there is only ever a whole checkpoint."""
    path = checkpoints / f"epoch-{training.history[-1].epoch:04d}.joblib"
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        joblib.dump({"network": training.network, "history": [asdict(epoch) for epoch in training.history]}, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    for old in sorted(checkpoints.glob("epoch-*.joblib"))[:-CHECKPOINTS_KEPT]:
        old.unlink()


def write_results(training: Training, outputs: Path, resumed_from: int | None, elapsed_s: float) -> None:
    """Plain arrays, so that reading the model runs no code of anybody's."""
    network = training.network
    layers = {f"weights_{index}": weights for index, weights in enumerate(network.coefs_)}
    layers |= {f"bias_{index}": bias for index, bias in enumerate(network.intercepts_)}
    np.savez(outputs / "model.npz", **layers)
    last = training.history[-1]
    metrics = {
        "epochs": len(training.history),
        "test_accuracy": last.test_accuracy,
        "test_loss": last.test_loss,
        "resumed_from_epoch": resumed_from,
        "seconds": round(elapsed_s, 3),
        "history": [asdict(epoch) for epoch in training.history],
    }
    (outputs / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    print(f"done: accuracy {last.test_accuracy:.4f} after {last.epoch} epochs")


if __name__ == "__main__":
    sys.exit(main())
