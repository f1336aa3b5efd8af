"""Faults of input, exposure, agents and supply."""

import base64
import hmac
import re
from pathlib import Path

import pytest

from placet.domain.hooks import message_id
from placet.runner.guard import Refused, is_denied, parse
from placet.sdk.webhooks import NotVerified, Verifier
from placet.server.rest import declared
from placet.server.serve import CannotServe, Listening, check_exposure
from placet.server.tokens import Scope
from tests.support.missing import not_built

PAGE = not_built("a web page")
AGENTS = not_built("tools for agents")


@not_built("inputs that are unpacked from archives")
def test_fault_INJ_01() -> None: ...


@pytest.mark.parametrize("part", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc", "/x?path=../../etc"])
def test_fault_INJ_03(part: str) -> None:
    """A location names a host and what is asked of it; it never becomes a path of this machine."""
    try:
        target = parse("https://example.com" + part)
    except Refused:
        return
    assert target.host == "example.com"
    assert target.url.startswith("https://example.com/")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://example.com/x#@10.0.0.1/", "FiLe:///etc/passwd"])
def test_fault_INJ_04(url: str) -> None:
    with pytest.raises(Refused):
        parse(url)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "::1", "::ffff:127.0.0.1", "fe80::1", "fd00::1"],
)
def test_fault_INJ_06(address: str) -> None:
    import ipaddress

    assert is_denied(ipaddress.ip_address(address))


KEY = b"k" * 32
NOW_S = 1_800_000_000.0


def signed(message_id: str, body: bytes) -> dict[str, str]:
    stamp = str(int(NOW_S))
    mark = hmac.digest(KEY, f"{message_id}.{stamp}.".encode() + body, "sha256")
    signature = "v1," + base64.b64encode(mark).decode()
    return {"webhook-id": message_id, "webhook-timestamp": stamp, "webhook-signature": signature}


def verifier() -> Verifier:
    return Verifier("whsec_" + base64.b64encode(KEY).decode())


@pytest.mark.parametrize("later_s", [1.0, 299.0, 301.0, 10_000.0])
def test_fault_INJ_08(later_s: float) -> None:
    checks, headers = verifier(), signed("msg_1", b"{}")
    checks.verify(headers, b"{}", now_s=NOW_S)
    with pytest.raises(NotVerified):
        checks.verify(headers, b"{}", now_s=NOW_S + later_s)


def test_fault_INJ_09() -> None:
    """One event told to two hooks is two messages; told again to one of them it is the same."""
    first, second = message_id("wh_1", 7), message_id("wh_2", 7)
    assert (first != second, message_id("wh_1", 7)) == (True, first)
    checks = verifier()
    for one in (first, second):
        checks.verify(signed(one, b"{}"), b"{}", now_s=NOW_S)


@PAGE
def test_fault_INJ_11() -> None: ...


@PAGE
def test_fault_INJ_13() -> None: ...


def test_fault_INJ_14() -> None:
    """With a token that may read, nothing can be changed: every door that changes something asks for more."""
    changing = [
        door for door in declared() if door.method != "GET" and not door.path.endswith((":validate", "/validate"))
    ]
    assert changing
    writes = [door.path for door in changing if door.scope is Scope.READ and door.status in (200, 201, 202)]
    assert not [path for path in writes if re.search(r"cancel|retry|resolve|redeliver|orphans|workloads$", path)], (
        writes
    )


def test_fault_INJ_15(tmp_path: Path) -> None:
    with pytest.raises(CannotServe):
        check_exposure(Listening(data_dir=tmp_path, host="0.0.0.0"))


def test_fault_INJ_16(project_root: Path) -> None:
    """All that is installed is pinned by digest."""
    pinned = [path for path in (project_root / "requirements").glob("*.txt") if "==" in path.read_text()]
    assert pinned
    for path in pinned:
        for line in path.read_text().splitlines():
            if re.match(r"^[a-z0-9].*==", line, re.I):
                assert line.rstrip().endswith("\\"), (path.name, line)


@AGENTS
def test_fault_INJ_18() -> None: ...
