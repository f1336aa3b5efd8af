"""Decides where a URL from a stranger may lead: one parser, one look-up, every address checked. It opens no connection.

``is_global`` of the standard library is true for several addresses that lead inside (translation prefixes, a cloud's
host service, IPv4 in disguise), so there is a list of our own, and IPv4 inside IPv6 is unwrapped and checked again.
"""

from __future__ import annotations

import ipaddress
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Sequence, Union

    Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
    Resolve = Callable[[str, int], List[str]]

URL_LENGTH_MAX = 4096
PORTS = {"http": 80, "https": 443}
HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")

DENIED = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
        "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
        "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7",
        "fe80::/10", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip
# Denied whatever an operator allows, unless that very address is named.
METADATA = [
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "168.63.129.16",
        "192.0.0.192",
        "100.100.100.200",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
]


class Refused(Exception):
    """The URL must not be followed; the message is fit for its author and tells nothing of the network."""


class Target:
    """A URL taken apart once; nothing is parsed again."""

    __slots__ = ("host", "path", "port", "scheme")

    def __init__(self, scheme: str, host: str, port: int, path: str) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.path = path

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its one normal form."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse(url: str, allowed_hosts: Sequence[str] = ()) -> Target:
    """Take the URL apart. Raises ``Refused``.

    ``http`` and ports other than the scheme's own are for hosts an operator has listed, as ``host`` or ``host:port``.
    """
    if len(url) > URL_LENGTH_MAX:
        raise Refused("the URL is too long")
    if any(ord(character) <= 0x20 or ord(character) >= 0x7F or character in '\\"<>^`{|}' for character in url):
        raise Refused("the URL holds a character that must be percent-encoded")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in PORTS:
        raise Refused("only https and http URLs can be fetched")
    if "#" in rest:
        raise Refused("the URL has a fragment, which has no meaning for a download")
    cut = min((rest.find(mark) for mark in "/?" if mark in rest), default=len(rest))
    authority, path = rest[:cut], rest[cut:]
    if "@" in authority or "%" in authority:
        raise Refused("the URL holds user information or an encoded host")
    host, port = _host_and_port(authority, PORTS[scheme])
    listed = _is_listed(host, port, allowed_hosts)
    if scheme == "http" and not listed:
        raise Refused("plain http is only for hosts that the operator has listed")
    if port != PORTS[scheme] and not listed:
        raise Refused("unusual ports are only for hosts that the operator has listed")
    if not path.startswith("/"):
        path = "/" + path
    return Target(scheme, host, port, path)


def follow(target: Target, location: str, allowed_hosts: Sequence[str] = ()) -> Target:
    """The target of a redirect. Raises ``Refused``."""
    if location.startswith("//"):
        location = target.scheme + ":" + location
    elif location.startswith("/"):
        location = f"{target.scheme}://{target.authority}{location}"
    elif "://" not in location.split("?")[0]:
        folder = target.path.split("?")[0].rpartition("/")[0]
        location = f"{target.scheme}://{target.authority}{folder}/{location}"
    onward = parse(location.split("#")[0], allowed_hosts)
    if target.scheme == "https" and onward.scheme == "http":
        raise Refused("the server redirects from https to http")
    return onward


def addresses(target: Target, allowed_hosts: Sequence[str] = (), resolve: Resolve | None = None) -> list[str]:
    """The addresses of the host, looked up once, every one of them checked. Raises ``Refused``."""
    try:
        found = (resolve or _resolve)(target.host, target.port)
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise Refused("the host has no address")
    listed = _is_listed(target.host, target.port, allowed_hosts)
    for text in found:
        try:
            address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            raise Refused("the host has no address") from None
        if is_metadata(address) and text not in allowed_hosts:
            raise Refused("the host leads to an address that is never allowed")
        if is_denied(address) and not listed:
            raise Refused("the host leads to an address that is not public")
    return found


def is_denied(address: Address) -> bool:
    """Whether the address, or an IPv4 address inside it, is not plainly public."""
    return any(_in_denied(each) for each in [address, *embedded(address)])


def is_metadata(address: Address) -> bool:
    """Whether it is, or wraps, an address at which clouds hand out credentials."""
    return any(each in METADATA for each in [address, *embedded(address)])


def embedded(address: Address) -> list[ipaddress.IPv4Address]:
    """IPv4 addresses that an IPv6 address carries: mapped, compatible, translated, 6to4, Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    raw = address.packed
    found = []
    if raw[:12] in (bytes(12), bytes(10) + b"\xff\xff", bytes(8) + b"\xff\xff\0\0"):
        found.append(raw[12:])
    if raw[:6] in (b"\0\x64\xff\x9b\0\0", b"\0\x64\xff\x9b\0\x01"):
        found.append(raw[12:])
    if raw[:2] == b"\x20\x02":
        found.append(raw[2:6])
    if raw[:4] == b"\x20\x01\0\0":
        found.append(raw[4:8])
        found.append(bytes(255 - byte for byte in raw[12:]))
    if raw[8:12] in (b"\0\0\x5e\xfe", b"\x02\0\x5e\xfe"):
        found.append(raw[12:])
    return [ipaddress.IPv4Address(piece) for piece in found]


def _in_denied(address: Address) -> bool:
    if any(address.version == network.version and address in network for network in DENIED):
        return True
    return not address.is_global or address.is_multicast


def _is_listed(host: str, port: int, allowed_hosts: Sequence[str]) -> bool:
    return host in allowed_hosts or f"{host}:{port}" in allowed_hosts


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, bracket, after = authority[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise Refused("the URL has no proper host")
        try:
            host = str(ipaddress.IPv6Address(host))
        except ValueError:
            raise Refused("the URL has no proper host") from None
        return host, _port(after[1:], default) if after else default
    host, colon, port = authority.partition(":")
    host = host.lower()
    if not host or len(host) > 253 or not HOST_CHARACTERS.issuperset(host) or ".." in host or host.startswith("."):
        raise Refused("the URL has no proper host")
    return host.rstrip("."), _port(port, default) if colon else default


def _port(text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or not 0 < int(text) < 65536:
        raise Refused("the URL has no proper port")
    return int(text)


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
