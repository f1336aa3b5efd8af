"""URLs of inputs and webhooks: whatever is accepted and looked up leads to no address inside; all else is refused."""

import ipaddress

from hypothesis import assume, example, given
from hypothesis import strategies as st

from placet.runner import guard
from tests.support.fuzzing import fuzz, soon

# Written anew from the registries of special addresses, not taken from the guard.
INSIDE = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3", "::/128", "::1/128", "fc00::/7", "fe80::/10", "fec0::/10",
        "ff00::/8", "168.63.129.16/32",
    )
]  # fmt: skip
hosts = st.sampled_from(
    ["example.org", "127.0.0.1", "0x7f.1", "2130706433", "localhost", "[::1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]",
     "169.254.169.254", "[fe80::1%25eth0]", "a..b", ".a", "a.", "-", "_x", "xn--bcher-kva.example", "[::", "]", "0",
     "EXAMPLE.org", "user@10.0.0.1", "a" * 300, "[2002:7f00:1::]", "١٢٧.0.0.1", "１２７.0.0.1", ""]
)  # fmt: skip
ports = st.sampled_from(["", ":", ":443", ":80", ":0", ":65536", ":²", ":-1", ":22", ":443@b", ":00443", ":x"])
schemes = st.sampled_from(
    ["https://", "http://", "HTTPS://", "file://", "gopher://", "https:/", "//", "https:\\\\", ""]
)
tails = st.one_of(
    st.text(max_size=20), st.sampled_from(["/", "?x", "#x", "/../a", "\\@b", "/%00", "/a b", "@10.0.0.1/"])
)
urls = st.one_of(st.text(max_size=60), st.builds("".join, st.tuples(schemes, hosts, ports, tails)))


def wrapped(four: ipaddress.IPv4Address, how: str) -> ipaddress.IPv6Address:
    low = int(four)
    forms = {
        "mapped": (0xFFFF << 32) | low,
        "compatible": low,
        "translated": (0xFFFF << 48) | low,
        "nat64": (0x64FF9B << 96) | low,
        "6to4": (0x2002 << 112) | (low << 80) | 1,
        "teredo": (0x20010000 << 96) | (0xFFFFFFFF ^ low),
    }
    return ipaddress.IPv6Address(forms[how])


fours = st.one_of(
    st.sampled_from([network for network in INSIDE if network.version == 4]).flatmap(
        lambda network: st.ip_addresses(network=network)
    ),
    st.ip_addresses(v=4),
)
WAYS = ["mapped", "compatible", "translated", "nat64", "6to4", "teredo"]
answers = st.one_of(st.ip_addresses(), fours, st.builds(wrapped, fours, st.sampled_from(WAYS)))


@fuzz
@given(urls)
@example("https://example.org:²/")
@example("https://[::1%0]/")
@example("https://" + "a" * 5_000)
@example("https://" + "[" * 200)
def test_a_url_has_one_form_or_is_refused(url: str) -> None:
    with soon():
        try:
            target = guard.parse(url)
        except guard.Refused:
            return
    assert target.scheme == "https"
    assert target.port == 443
    assert target.host
    again = guard.parse(target.url)
    assert (again.host, again.port, again.path) == (target.host, target.port, target.path)


@fuzz
@given(st.lists(answers, min_size=1, max_size=3))
def test_nothing_that_is_looked_up_leads_inside(found: list[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> None:
    target = guard.parse("https://example.org/")
    try:
        used = guard.addresses(target, resolve=lambda host, port: [str(each) for each in found])
    except guard.Refused:
        return
    assert [ipaddress.ip_address(each) for each in used] == found
    for each in found:
        held = [each, *guard.embedded(each)]
        assert not any(one in network for one in held for network in INSIDE if one.version == network.version), each


@fuzz
@given(fours, st.sampled_from(WAYS))
def test_an_inner_address_is_found_however_it_is_wrapped(four: ipaddress.IPv4Address, how: str) -> None:
    assume(any(four in network for network in INSIDE if network.version == 4))
    assert guard.is_denied(four)
    assert guard.is_denied(wrapped(four, how))


@fuzz
@given(st.text(max_size=60).filter(lambda text: "[" not in text))
@example("1.2.3.999")
@example("fe80::1%eth0")
@example("")
def test_a_resolver_that_answers_nonsense_leads_nowhere(answer: str) -> None:
    target = guard.parse("https://example.org/")
    try:
        used = guard.addresses(target, resolve=lambda host, port: [answer])
    except guard.Refused:
        return
    assert not guard.is_denied(ipaddress.ip_address(used[0].partition("%")[0]))


@fuzz
@given(urls)
@example("//10.0.0.1/")
@example("?")
@example("")
def test_a_redirect_is_held_to_the_same_rules(location: str) -> None:
    start = guard.parse("https://example.org/a/b")
    try:
        onward = guard.follow(start, location)
    except guard.Refused:
        return
    assert (onward.scheme, onward.port) == ("https", 443)
    assert guard.parse(onward.url).url == onward.url
