"""Downloads: into a draft beside the target, checked, then renamed, so that a target is whole or not there."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType

from placet.contract import api
from placet.sdk.errors import ClientError, UnexpectedReply

BROKEN = "download it again; nothing of it was kept"
CHANGED = "download it again; if that does not help, the file was changed where the server keeps it"


class UnsafePath(ClientError):
    """The server names an output in a way that would leave the target folder."""

    code = "unsafe_path"
    fix = "download it by itself, to a place that you name"


class NoSuchOutput(ClientError):
    """The workload has no such output."""

    code = "no_such_output"
    fix = "`placet artifacts ls ID` lists them"


class Saved:
    """A file that is being received."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._draft = target.with_name(f".{target.name}.{os.getpid()}.part")
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def __enter__(self) -> "Saved":
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._draft.open("wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        """The next bytes."""
        self._file.write(piece)
        self._digest.update(piece)
        self.size_bytes += len(piece)

    def finish(self, name: str, sha256: str) -> None:
        """Put it in its place, if it is what it should be. Raises ``UnexpectedReply``."""
        if self._digest.hexdigest() != sha256.removeprefix("sha256:"):
            raise UnexpectedReply(f"{name}: what came has another digest than the artifact", CHANGED)
        self._file.close()
        self._draft.replace(self._target)


def newest(artifacts: Sequence[api.ArtifactView]) -> list[api.ArtifactView]:
    """Those of the newest attempt that has any."""
    last = max((artifact.epoch for artifact in artifacts), default=0)
    return [artifact for artifact in artifacts if artifact.epoch == last]


def chosen(artifacts: Sequence[api.ArtifactView], name: str) -> api.ArtifactView:
    """The newest output of that path, or of that name. Raises ``NoSuchOutput``."""
    for candidates in (
        [artifact for artifact in artifacts if artifact.path == name],
        [artifact for artifact in newest(artifacts) if artifact.name == name],
    ):
        if candidates:
            return max(candidates, key=lambda artifact: artifact.epoch)
    raise NoSuchOutput(f"there is no output {name!r}")


def inside(folder: Path, path: str) -> Path:
    """The place below a folder. Raises ``UnsafePath`` for a path that leaves it."""
    parts = PurePosixPath(path.lstrip("/")).parts
    if not parts or ".." in parts or "\0" in path:
        raise UnsafePath(f"the output {path!r} cannot be put below {folder}")
    return folder.joinpath(*parts)
