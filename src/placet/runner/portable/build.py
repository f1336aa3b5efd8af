"""Makes the one file of the runner: everything of ``placet.runner``, as a zip that Python runs."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import zipfile

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENTRY = b"import sys\n\nfrom placet.runner.portable.main import main\n\nsys.exit(main())\n"
# The same sources give the same bytes.
LONG_AGO = (2020, 1, 1, 0, 0, 0)


class Built:
    """The file, and its digest, by which it is named where several versions lie side by side."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sha256 = hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=1)
def build() -> Built:
    """The runner of this very Placet."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", ENTRY)
        _add(archive, "placet/__init__.py", b"")
        for folder, folders, names in os.walk(PACKAGE):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        _add(
                            archive, "placet/runner/" + os.path.relpath(path, PACKAGE).replace(os.sep, "/"), file.read()
                        )
    return Built(target.getvalue())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)
