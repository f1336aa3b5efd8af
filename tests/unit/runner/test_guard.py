"""Where a URL from a stranger may lead: forms that parse, forms that do not, addresses that are never reached."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.runner.guard import Refused, addresses, embedded, follow, is_denied, is_metadata, parse

REFUSED_FORMS = [
    "",
    "example.com/x",
    "//example.com/x",
    "ftp://example.com/x",
    "file:///etc/passwd",
    "gopher://example.com/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "https:/example.com/x",
    "https:example.com",
    "https://",
    "https:///x",
    "https://?x",
    "https://user@example.com/",
    "https://user:pass@example.com/",
    "https://example.com@10.0.0.1/",
    "https://example.com:443@10.0.0.1/",
    "https://example.com#@10.0.0.1/",
    "https://example.com/x#fragment",
    "https://example.com\\@10.0.0.1/",
    "https:\\\\example.com/",
    "https://example.com\\x",
    "https://exam ple.com/",
    "https://example.com/a b",
    "https://example.com/\r\nHost: x",
    "https://example.com/\tx",
    "https://example.com/\0",
    "https://example.com/\x7f",
    "https://ex\u00e4mple.com/",
    "https://\uff11\uff12\uff17.0.0.1/",
    "https://127\u3002 0.0.1/",
    "https://example%2ecom/",
    "https://%31%32%37.0.0.1/",
    "https://[::1/",
    "https://[::1]x/",
    "https://[::ffff:127.0.0.1%25eth0]/",
    "https://[v1.x]/",
    "https://[127.0.0.1]/",
    "https://.example.com/",
    "https://a..b/",
    "https://example.com:0/",
    "https://example.com:99999/",
    "https://example.com:x/",
    "https://example.com:-1/",
    "https://example.com:4 3/",
    "https://example.com:22/",
    "https://example.com:8443/",
    "http://example.com/",
    "https://exa<mple.com/",
    "https://example.com/^",
    "https://example.com/{x}",
    "https://example.com/|",
    "https://example.com/`",
    'https://example.com/"',
    "https://" + "a" * 254 + "/",
    "https://example.com/" + "a" * 5000,
]

DENIED_ADDRESSES = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.1.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "2606:4700:4700::5efe:7f00:1",
    "2606:4700:4700::200:5efe:a00:1",
]
PUBLIC_ADDRESSES = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:830::200e"]


@pytest.mark.parametrize("url", REFUSED_FORMS, ids=lambda url: repr(url)[:40])
def test_odd_forms_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        parse(url)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.com", "example.com", 443, "/"),
        ("HTTPS://EXAMPLE.com/A?b=c", "example.com", 443, "/A?b=c"),
        ("https://example.com:443/x", "example.com", 443, "/x"),
        ("https://example.com.?q=@", "example.com", 443, "/?q=@"),
        ("https://example.com/a@b:c", "example.com", 443, "/a@b:c"),
        ("https://[2606:4700:4700::1111]/x", "2606:4700:4700::1111", 443, "/x"),
    ],
)
def test_plain_forms_are_taken_apart_once(url: str, host: str, port: int, path: str) -> None:
    target = parse(url)
    assert (target.host, target.port, target.path) == (host, port, path)
    assert parse(target.url).url == target.url


def test_http_and_odd_ports_are_for_listed_hosts() -> None:
    assert parse("http://data.example:8080/x", ["data.example"]).port == 8080
    assert parse("http://data.example:8080/x", ["data.example:8080"]).port == 8080
    with pytest.raises(Refused):
        parse("http://data.example:8081/x", ["data.example:8080"])


@pytest.mark.parametrize("text", DENIED_ADDRESSES)
def test_addresses_that_lead_inside_are_denied(text: str) -> None:
    assert is_denied(ipaddress.ip_address(text))
    with pytest.raises(Refused):
        addresses(parse("https://example.com/"), resolve=lambda host, port: [text])


@pytest.mark.parametrize("text", PUBLIC_ADDRESSES)
def test_public_addresses_are_reached(text: str) -> None:
    assert addresses(parse("https://example.com/"), resolve=lambda host, port: [text]) == [text]


def test_one_bad_address_among_good_ones_is_enough() -> None:
    with pytest.raises(Refused):
        addresses(parse("https://example.com/"), resolve=lambda host, port: ["1.1.1.1", "10.0.0.1"])


def test_a_scope_does_not_hide_an_address() -> None:
    with pytest.raises(Refused):
        addresses(parse("https://example.com/"), resolve=lambda host, port: ["fe80::1%eth0"])


def test_a_host_without_address_is_refused() -> None:
    with pytest.raises(Refused):
        addresses(parse("https://example.com/"), resolve=lambda host, port: [])


def test_a_listed_host_may_be_private_but_never_a_metadata_service() -> None:
    target = parse("https://data.example/", ["data.example"])
    assert addresses(target, ["data.example"], resolve=lambda host, port: ["10.0.0.1"]) == ["10.0.0.1"]
    for text in ("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254"):
        with pytest.raises(Refused):
            addresses(target, ["data.example"], resolve=lambda host, port, text=text: [text])
    named = ["data.example", "169.254.169.254"]
    assert addresses(target, named, resolve=lambda host, port: ["169.254.169.254"]) == ["169.254.169.254"]


@pytest.mark.parametrize(
    ("location", "outcome"),
    [
        ("/other?x", "https://example.com/other?x"),
        ("other", "https://example.com/folder/other"),
        ("//elsewhere.com/x", "https://elsewhere.com/x"),
        ("https://elsewhere.com/x#part", "https://elsewhere.com/x"),
        ("?q=http://x", "https://example.com/folder/?q=http://x"),
    ],
)
def test_redirects_are_resolved(location: str, outcome: str) -> None:
    assert follow(parse("https://example.com/folder/page"), location).url == outcome


@pytest.mark.parametrize(
    "location",
    ["http://example.com/", "ftp://example.com/", "https://user@example.com/", "file:///etc/passwd", "\\\\x"],
)
def test_redirects_into_the_forbidden_are_refused(location: str) -> None:
    with pytest.raises(Refused):
        follow(parse("https://example.com/"), location)


def test_never_from_https_to_http_even_for_listed_hosts() -> None:
    with pytest.raises(Refused):
        follow(parse("https://data.example/", ["data.example"]), "http://data.example/", ["data.example"])


@given(st.ip_addresses(v=4))
def test_a_denied_ipv4_address_is_denied_in_every_disguise(address: ipaddress.IPv4Address) -> None:
    raw = address.packed
    disguises = [
        bytes(12) + raw,
        bytes(10) + b"\xff\xff" + raw,
        bytes.fromhex("0064ff9b") + bytes(8) + raw,
        b"\x20\x02" + raw + bytes(10),
    ]
    for disguise in disguises:
        wrapped = ipaddress.IPv6Address(disguise)
        assert address in embedded(wrapped)
        assert is_denied(wrapped)
        assert is_metadata(wrapped) == is_metadata(address)


@given(st.text(max_size=60))
def test_whatever_is_accepted_has_one_meaning(text: str) -> None:
    for url in (text, "https://" + text):
        try:
            target = parse(url)
        except Refused:
            continue
        assert target.scheme == "https"
        assert target.port == 443
        again = parse(target.url)
        assert (again.host, again.port, again.path) == (target.host, target.port, target.path)
        assert not set(target.host) & set("/@?#\\ ")
