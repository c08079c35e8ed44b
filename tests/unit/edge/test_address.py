"""From where a request comes: the peer, or what trusted proxies say of it, and never the client's own word."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

import pytest

from services.edge.address import Addresses, within
from services.edge.exchange import Exchange

INNER, OUTER = IPv4Network("10.0.0.0/8"), IPv6Network("2001:db8:1::/48")


async def nothing(*_: Any) -> Any:
    raise AssertionError("nothing is read or sent")


def exchange(peer: str | None, *forwarded: str) -> Exchange:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    client = None if peer is None else (peer, 40_000)
    return Exchange({"type": "http", "path": "/v1/models", "client": client, "headers": headers}, nothing, nothing)


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", (), "203.0.113.9"),
        # Not a proxy of ours: whatever it says is its own word.
        ("203.0.113.9", ("198.51.100.1",), "203.0.113.9"),
        ("10.0.0.1", ("198.51.100.1",), "198.51.100.1"),
        ("::ffff:10.0.0.1", ("::ffff:198.51.100.1",), "198.51.100.1"),
        ("2001:db8:1::5", ("2001:db8:2::7",), "2001:db8:2::7"),
        # Two proxies in a row, and what the client had sent itself.
        ("10.0.0.1", ("1.1.1.1, 198.51.100.1, 10.0.0.2",), "198.51.100.1"),
        ("10.0.0.1", ("1.1.1.1", "198.51.100.1", "10.0.0.2"), "198.51.100.1"),
        ("10.0.0.1", ("10.0.0.3, 10.0.0.2",), "10.0.0.3"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("198.51.100.1:8080",), "198.51.100.1"),
        ("10.0.0.1", ("[2001:db8:2::7]:8080",), "2001:db8:2::7"),
        ("10.0.0.1", ("1.1.1.1, unknown",), None),
        ("10.0.0.1", ("",), None),
        ("/run/kenari.sock", ("198.51.100.1",), None),
        (None, ("198.51.100.1",), None),
    ],
)
def test_the_address_is_the_last_that_no_proxy_of_ours_has(
    peer: str | None, forwarded: tuple[str, ...], address: str | None
) -> None:
    told = Addresses((INNER, OUTER)).of(exchange(peer, *forwarded))
    assert told == (None if address is None else ip_address(address))


def test_without_trusted_proxies_the_peer_counts() -> None:
    assert Addresses(()).of(exchange("10.0.0.1", "198.51.100.1")) == ip_address("10.0.0.1")


def test_an_unknown_address_is_in_no_network() -> None:
    everywhere = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    assert within(ip_address("1.1.1.1"), everywhere)
    assert within(ip_address("::1"), everywhere)
    assert not within(ip_address("::1"), everywhere[:1])
    assert not within(None, everywhere)
