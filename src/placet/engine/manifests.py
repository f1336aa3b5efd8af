"""The list of an attempt's outputs as it stands beside them: the same bytes whoever makes it."""

import json
from collections.abc import Iterable

# Beside the folder of the outputs themselves, so that no output can have its name.
MANIFEST = "manifest.json"
OUTPUTS = "outputs"

Listed = tuple[str, str, int, str]  # name, path, bytes, SHA-256


def manifest_bytes(workload_id: str, epoch: int, files: Iterable[Listed]) -> bytes:
    """No times, one order: made again it is equal."""
    listed = [
        {"name": name, "path": path, "size_bytes": size_bytes, "sha256": sha256}
        for name, path, size_bytes, sha256 in sorted(files, key=lambda one: (one[1], one[0]))
    ]
    document = {"manifest": 1, "workload_id": workload_id, "epoch": epoch, "files": listed}
    return json.dumps(document, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode()
