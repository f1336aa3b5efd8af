"""One question to the supervisor of this machine: is it there, which one is it, what does it watch?"""

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

ANSWER_WITHIN_S = 3.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
HELLO = b'{"id": 1, "verb": "hello", "deployment": ""}\n'


@dataclass(frozen=True, kw_only=True)
class Greeting:
    """What it says of itself; ``version`` is empty for one that is older than the question."""

    version: str
    protocol: int
    live: int
    kept: int


class Silent(Exception):
    """Something listens and gives no answer; the message says how."""


def hello(folder: Path) -> Greeting | None:
    """The greeting of the supervisor of a local folder; ``None`` when nobody listens there.

    Raises:
        Silent: it did not answer within ``ANSWER_WITHIN_S``, or with something else.
    """
    try:
        home = os.open(folder / "supervisor", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(ANSWER_WITHIN_S)
            try:
                # The address of a unix socket is short: reach it through a descriptor of its folder.
                channel.connect(f"/proc/self/fd/{home}/sock")
            except TimeoutError as error:
                raise Silent("it takes no more connections") from error
            except OSError:
                return None
            return _greeting(_answer(channel))
    finally:
        os.close(home)


def process_id(folder: Path) -> str:
    """The number of its process, as it wrote it; empty when unknown."""
    try:
        return (folder / "supervisor" / "lock").read_text(encoding="ascii", errors="replace").strip()[:20]
    except OSError:
        return ""


def _answer(channel: socket.socket) -> object:
    """The answer among the hints that may come before it."""
    deadline = time.monotonic() + ANSWER_WITHIN_S
    held = b""
    try:
        channel.sendall(HELLO)
        while len(held) < ANSWER_BYTES_MAX:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
            piece = channel.recv(65536)
            held += piece
            *lines, held = held.split(b"\n")
            for line in lines:
                told = json.loads(line)
                if isinstance(told, dict) and told.get("id") == 1:
                    return told.get("ok")
            if not piece or time.monotonic() > deadline:
                break
    except TimeoutError:
        pass
    except (OSError, ValueError) as error:
        raise Silent(f"its answer cannot be read: {error}") from error
    raise Silent(f"no answer within {ANSWER_WITHIN_S:g} s")


def _greeting(told: object) -> Greeting:
    if not isinstance(told, dict):
        raise Silent("what listens there is no supervisor")
    try:
        live = int(told["live"])
        return Greeting(
            version=str(told.get("version") or "")[:40],
            protocol=int(told["protocol"]),
            live=live,
            kept=int(told.get("kept", live)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Silent("what listens there is no supervisor") from error
