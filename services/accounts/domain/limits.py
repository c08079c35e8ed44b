"""What limits a key besides its models: caps, requests and tokens a minute, addresses (contract: Restrict a key).

Called by key.py beside it, the stores and wire.py.
"""

import ipaddress
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from services.accounts.domain.errors import FixedLimitsError, InvalidError

MAX_ALLOWED_IPS = 50
MAX_PER_MINUTE = 1_000_000_000
_LARGEST_CAP = 2**63 - 1


class CapPeriod(StrEnum):
    """When the count of the caps starts anew, by UTC; a week begins on Monday."""

    NEVER = ""
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps in micro-Rupiah and tokens, and what a minute may bring; 0 and empty are no limit.

    ``allowed_ips`` are addresses and networks as ``addresses`` writes them.
    """

    spend_cap_micro_idr: int = 0
    token_cap: int = 0
    cap_period: CapPeriod = CapPeriod.NEVER
    allowed_ips: tuple[str, ...] = ()
    requests_per_minute: int = 0
    tokens_per_minute: int = 0

    def check(self) -> None:
        """Raise InvalidError for limits nobody can mean."""
        if not all(0 <= cap <= _LARGEST_CAP for cap in (self.spend_cap_micro_idr, self.token_cap)):
            raise InvalidError("a cap is a positive number, or 0 for none")
        if self.cap_period and not self.capped:
            raise InvalidError("a period belongs to a spend cap or a token cap; give one, or no period")
        if not all(0 <= rate <= MAX_PER_MINUTE for rate in (self.requests_per_minute, self.tokens_per_minute)):
            raise InvalidError(f"requests and tokens a minute are at most {MAX_PER_MINUTE:,}; 0 is no limit")
        if len(self.allowed_ips) > MAX_ALLOWED_IPS:
            raise InvalidError(f"a key is limited to at most {MAX_ALLOWED_IPS} addresses and networks")

    @property
    def capped(self) -> bool:
        return self.spend_cap_micro_idr > 0 or self.token_cap > 0


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """New limits of a key; None leaves one as it is. There is no token cap: it is fixed when a key is made."""

    spend_cap_micro_idr: int | None = None
    cap_period: CapPeriod | None = None
    allowed_ips: tuple[str, ...] | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def of(self, now: Limits, *, shared: bool, login: bool) -> Limits:
        """The limits as they become; raise FixedLimitsError or InvalidError for what must not change."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = replace(now, **{name: value for name, value in named.items() if value is not None})
        if shared and changed != now:
            raise FixedLimitsError("the limits of a shared key are fixed; revoke it and make another")
        if login and changed.capped:
            raise InvalidError("a login key has no caps")
        changed.check()
        return changed


def cap_period(text: str) -> CapPeriod:
    """The period of that name; raise InvalidError."""
    try:
        return CapPeriod(text)
    except ValueError as error:
        raise InvalidError("a cap's period is day, week or month, or empty for none") from error


def addresses(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses and CIDR networks in one spelling each, without repeats; raise InvalidError naming the wrong one."""
    return tuple(dict.fromkeys(map(_address, entries)))


def _address(entry: str) -> str:
    try:
        network = ipaddress.ip_network(entry.strip())
    except ValueError as error:
        shown = entry[:60] if entry.isprintable() else "an entry"
        raise InvalidError(
            f"{shown} is no IP address and no network such as 203.0.113.0/24 or 2001:db8::/48"
        ) from error
    address = network.network_address
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise InvalidError("an address with a zone means something on one machine only")
        if (mapped := address.ipv4_mapped) is not None and network.prefixlen >= 96:
            # Clients never arrive under the mapped spelling.
            network = ipaddress.ip_network((mapped, network.prefixlen - 96))
    return str(network.network_address if network.num_addresses == 1 else network)
