"""How many wrong tokens one peer may show: a bucket for each, forgiven with time, for a bounded number of peers.

A token has 256 random bits, so nobody finds one by trying; what is bounded here is the work and the noise of trying.
"""

import ipaddress
import math
from collections import OrderedDict

from placet.ports.ambient import Clock

FAILURES_MOST = 20
FORGIVEN_EVERY_S = 6.0
PEERS_MAX = 4096


class FailedTokens:
    """Counts the wrong tokens of each peer; the peer not heard of for the longest time is forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._peers)

    def wait_s(self, peer: str | None) -> int:
        """Whole seconds until this peer may show another; 0 when it may now."""
        over = self._level(peer) - (FAILURES_MOST - 1)
        return math.ceil(over * FORGIVEN_EVERY_S) if over > 0 else 0

    def count(self, peer: str | None) -> None:
        """It showed a wrong one. Over the limit nothing is added, so that waiting as told is enough."""
        if peer is None:
            return
        level = min(self._level(peer) + 1, FAILURES_MOST)
        self._peers[peer] = (level, self._clock.monotonic_s())
        self._peers.move_to_end(peer)
        while len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)

    def _level(self, peer: str | None) -> float:
        if peer is None or peer not in self._peers:
            return 0.0
        level, at_s = self._peers[peer]
        return max(0.0, level - (self._clock.monotonic_s() - at_s) / FORGIVEN_EVERY_S)


def peer_of(address: str | None) -> str | None:
    """Whom a client's address stands for: itself, or in IPv6 its network, of which one customer has all.

    ``None`` for the unix socket: who reaches that is the owner.
    """
    if not address:
        return None
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
