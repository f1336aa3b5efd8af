"""The folder of one attempt on a file system that its machine and its controller both see: names, claim, documents.

The controller writes the order, the permit and the stop; the runner writes the claim and what it has seen. Every
document appears whole or not at all. Nothing here waits.
"""

from __future__ import annotations

import contextlib
import errno
import os

from placet.runner.records import encode, read_record, write_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    Json = Dict[str, Any]

# Of the controller.
ORDER = "order.json"
SECRETS = "secrets.json"
SECRETS_PLAIN = "secrets.sh"
PERMIT = "permit.json"
STOP = "stop.json"
# Of the runner.
CLAIM = "claim.json"
STATUS = "status.json"
NOTICE = "notice"
RUN = "run"
# Some file systems of clusters have no hard links.
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EACCES)


class Taken(Exception):
    """Another incarnation holds the claim; nothing of the user's may run here."""


def claim(folder: str, identity: str, facts: Json) -> None:
    """Become the only incarnation that may ever run this attempt. Raises ``Taken``, or ``OSError``.

    A second name for a file of our own is made once at most, on network file systems too. Their answer may get lost,
    so it is not believed: whose identity stands under the name afterwards holds the claim.
    """
    target = os.path.join(folder, CLAIM)
    own = os.path.join(folder, "claim." + identity)
    write_bytes(own, encode({**facts, "identity": identity}) + b"\n")
    try:
        _give_name(own, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(own)
    holder = read_record(target) or {}
    if holder.get("identity") != identity:
        raise Taken(str(holder.get("identity") or "an unreadable claim"))


def _give_name(own: str, target: str) -> None:
    try:
        os.link(own, target)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _create_alone(own, target)


def _create_alone(own: str, target: str) -> None:
    with open(own, "rb") as file:
        data = file.read()
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def take_secrets(folder: str) -> dict[str, str]:
    """The secrets of the order, which are gone from the disk before anything is done with them."""
    path = os.path.join(folder, SECRETS)
    document = read_record(path)
    for name in (SECRETS, SECRETS_PLAIN):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    return {str(name): str(value) for name, value in (document or {}).items()}


class Transport:
    """What the runner hears and says. Another way than files is another class with these four methods."""

    def order(self) -> Json | None:
        """What is to be done; ``None`` when nothing is."""
        raise NotImplementedError

    def permit(self) -> Json | None:
        """The answer to the permit: ``granted``, ``nonce`` and ``reason``; ``None`` as long as there is none."""
        raise NotImplementedError

    def stop(self) -> Json | None:
        """The request to stop: ``grace_s``; ``None`` as long as there is none."""
        raise NotImplementedError

    def tell(self, status: Json) -> bool:
        """Say all that is known now; false when it was not heard and is to be said again."""
        raise NotImplementedError


class FileDrop(Transport):
    """The folder as a way to talk."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def order(self) -> Json | None:
        return read_record(os.path.join(self.folder, ORDER))

    def permit(self) -> Json | None:
        return read_record(os.path.join(self.folder, PERMIT))

    def stop(self) -> Json | None:
        return read_record(os.path.join(self.folder, STOP))

    def tell(self, status: Json) -> bool:
        try:
            # One line: many of them are read in one go.
            write_bytes(os.path.join(self.folder, STATUS), encode(status) + b"\n")
        except OSError:
            return False
        return True
