"""Who calls, and whether their key may call right now: the door of every endpoint that needs a key.

A shared key is paced as a whole and by the address of who uses it, and any key may have a limit a minute of its own
(contract: Rate limits, Shared keys). Called by the endpoints before they read a body.
"""

from ipaddress import IPv6Address, IPv6Network

from kenari.limiter.v1 import limiter_pb2

from services.edge.address import Address, Addresses
from services.edge.errors import PlainRefusedError
from services.edge.exchange import Exchange
from services.edge.keys import Caller, KeyDirectory
from services.edge.limiter import LimitedError, Limiter

# All whose address nobody can tell share one limit.
_NOWHERE = "unknown"
# One customer of a provider usually has a whole network of this size.
_IPV6_PREFIX = 64


class Callers:
    """Looks keys up, and asks the limiter about those with limits of their own."""

    def __init__(self, keys: KeyDirectory, addresses: Addresses, limiter: Limiter) -> None:
        self._keys = keys
        self._addresses = addresses
        self._limiter = limiter

    async def caller(self, exchange: Exchange) -> Caller:
        """The caller of a request; raise what KeyDirectory does, or 429: as text for an address, else LimitedError."""
        caller = await self._keys.caller(exchange)
        if caller.shared or caller.requests_per_minute:
            await self._admit(caller, exchange)
        return caller

    async def _admit(self, caller: Caller, exchange: Exchange) -> None:
        question = limiter_pb2.AdmitRequest(
            request_id=exchange.request_id,
            account_id=caller.account_id,
            subject=limiter_pb2.SUBJECT_KEY_REQUEST,
            key_id=caller.key_id,
            key_shared=caller.shared,
            key_rpm=caller.requests_per_minute,
        )
        if caller.shared:
            question.address = _bucket(self._addresses.of(exchange))
        try:
            await self._limiter.ask(question).answer()
        except LimitedError as refused:
            if refused.limit == limiter_pb2.LIMIT_ADDRESS:
                raise PlainRefusedError(429, "too many requests, try again shortly") from refused
            raise


def _bucket(address: Address | None) -> str:
    """What an address counts as: itself, or its network where one person has many."""
    if isinstance(address, IPv6Address):
        return str(IPv6Network((address, _IPV6_PREFIX), strict=False).network_address)
    return _NOWHERE if address is None else str(address)
