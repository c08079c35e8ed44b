"""From which address a request comes, told by nobody but proxies of ours.

Made by app.py; asked by whatever limits a key by address.
"""

import ipaddress
from collections.abc import Iterable

from services.edge.exchange import Exchange

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Addresses:
    """Reads client addresses. ``trusted`` are the networks of proxies whose X-Forwarded-For is believed."""

    def __init__(self, trusted: Iterable[Network]) -> None:
        self._trusted = tuple(trusted)

    def of(self, exchange: Exchange) -> Address | None:
        """The client's address; None when it cannot be told, which fits no network.

        The connection's peer, or behind trusted proxies the last address of X-Forwarded-For that is not itself
        one of them: what stands before it is the client's own word.
        """
        peer = exchange.scope.get("client")
        address = _read(peer[0]) if peer else None
        if address is None or not self._trusted:
            return address
        for hop in reversed(_forwarded(exchange)):
            if not within(address, self._trusted):
                break
            address = _read(hop)
            if address is None:
                break
        return address


def within(address: Address | None, networks: Iterable[Network]) -> bool:
    """Whether the address is in one of the networks."""
    return address is not None and any(address in network for network in networks)


def _forwarded(exchange: Exchange) -> list[str]:
    """The hops of all X-Forwarded-For headers, the nearest last."""
    told = [value.decode("latin-1") for name, value in exchange.scope["headers"] if name == b"x-forwarded-for"]
    return ",".join(told).split(",") if told else []


def _read(text: str) -> Address | None:
    """An address as proxies write it, perhaps with a port; an IPv4 one in IPv6 spelling is an IPv4 one."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
