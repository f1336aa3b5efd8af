"""For receivers of webhooks: is a message what Placet sent, and new? Any Standard Webhooks library can tell too."""

import base64
import binascii
import hmac
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "whsec_"
TOLERANCE_S: Final = 300
REMEMBERED: Final = 100_000


class NotVerified(Exception):
    """The message must not be believed; the text says why."""


class Verifier:
    """Checks messages to one webhook. Ids are remembered by this process alone: several need a memory they share."""

    def __init__(self, secret: str, *, tolerance_s: float = TOLERANCE_S) -> None:
        try:
            self._key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("the secret is `whsec_` and base64, as `placet webhook add` shows it") from None
        self._tolerance_s = tolerance_s
        self._seen: OrderedDict[str, float] = OrderedDict()

    def verify(self, headers: Mapping[str, str], body: bytes, *, now_s: float | None = None) -> None:
        """Returns if the message is genuine, fresh and new; ``body`` is what arrived, byte for byte.

        Raises:
            NotVerified: a header is missing, the signature is another's, it is too old, or its id was here before.
        """
        named = {name.lower(): value for name, value in headers.items()}
        try:
            message_id, stamp, signatures = (named[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
        except KeyError as missing:
            raise NotVerified(f"there is no header {missing}") from None
        now_s = time.time() if now_s is None else now_s
        if not stamp.isascii() or not stamp.isdigit() or abs(now_s - int(stamp[:15])) > self._tolerance_s:
            raise NotVerified("its timestamp is too old, or from another clock")
        expected = hmac.digest(self._key, f"{message_id}.{stamp}.".encode() + body, "sha256")
        known = "v1," + base64.b64encode(expected).decode()
        if not any(hmac.compare_digest(known.encode(), one.encode()) for one in signatures.split(" ")):
            raise NotVerified("no signature is of this key")
        self._remember(message_id, now_s)

    def _remember(self, message_id: str, now_s: float) -> None:
        while self._seen and (len(self._seen) >= REMEMBERED or next(iter(self._seen.values())) < now_s):
            self._seen.popitem(last=False)
        if message_id in self._seen:
            raise NotVerified("its id was here before")
        self._seen[message_id] = now_s + 2 * self._tolerance_s
