"""What each endpoint is billed by: how much a request may cost at most, and what it did cost.

Called by funding.py and movements.py (contract: What each endpoint is billed by, How a chat request is charged).
A new endpoint names its meter here and nothing else.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from libs.core.money import PER_MILLION_TOKENS, Micros
from libs.core.pricing import LOWEST_MAX_TOKENS, Price, Tokens, chat_cost, free_cache_cost
from services.ledger.domain.calls import InvalidCallError, Reserve, Settle
from services.ledger.domain.state import Hold


class Meter(Enum):
    """CHAT by tokens of four kinds; HELD_INPUT by the tokens estimated; CAPPED_INPUT by those reported, at most the
    estimate; UNITS by what was delivered, at most what was held; FEE by the call."""

    CHAT = "chat"
    HELD_INPUT = "held_input"
    CAPPED_INPUT = "capped_input"
    UNITS = "units"
    FEE = "fee"


_METERS: Mapping[str, Meter] = {
    "chat": Meter.CHAT,
    "messages": Meter.CHAT,
    "responses": Meter.CHAT,
    "kyara": Meter.CHAT,
    "embeddings": Meter.HELD_INPUT,
    "rerank": Meter.HELD_INPUT,
    "moderations": Meter.HELD_INPUT,
    "systemone": Meter.CAPPED_INPUT,
    "images": Meter.UNITS,
    "speech": Meter.UNITS,
    "transcriptions": Meter.UNITS,
    "music": Meter.UNITS,
    "videos": Meter.UNITS,
    "ocr": Meter.UNITS,
    "web_search": Meter.FEE,
    "page_fetch": Meter.FEE,
    "x_search": Meter.FEE,
}
ALLOWANCE = frozenset({"web_search", "page_fetch"})
"""What the daily allowance of a plan pays for."""

SOFT_OUTPUT_TOKENS = 4096
"""Output that a running request is believed to make, where it leans on a quota and not on the balance."""


class Worth(msgspec.Struct, frozen=True, gc=False):
    """``value`` is the list price; ``net`` what is charged or spent of a quota, free cache taken off; ``tokens``
    what token caps and allocations count."""

    value: Micros
    net: Micros
    tokens: int


NOTHING = Worth(Micros(0), Micros(0), 0)


class WorstCase(msgspec.Struct, frozen=True, gc=False):
    """What a request may cost at list price, as a function of the output it may make."""

    input_product: int
    output_price: int
    asked: int

    def amount(self, max_tokens: int) -> Micros:
        """The most it costs with that many output tokens, rounded up."""
        return Micros(-(-(self.input_product + max_tokens * self.output_price) // PER_MILLION_TOKENS))

    @property
    def full(self) -> Micros:
        return self.amount(self.asked)

    @property
    def soft(self) -> Micros:
        """What it is believed to cost."""
        return self.amount(min(self.asked, SOFT_OUTPUT_TOKENS))

    def most(self, room: int) -> int:
        """The most output tokens, up to those asked, whose cost fits in ``room``; below 0 when none do.

        A request that asks for no more than the lowest worth starting is not lowered, nor is one below that.
        """
        if self.full <= room:
            return self.asked
        if not self.output_price:
            return -1
        fits = (room * PER_MILLION_TOKENS - self.input_product) // self.output_price
        return fits if lowerable(fits, self.asked) else -1


def lowerable(tokens: int, asked: int) -> bool:
    """Whether a request may run with fewer output tokens than it asked for."""
    return LOWEST_MAX_TOKENS <= tokens < asked


def meter(endpoint: str) -> Meter:
    """The endpoint's meter; raise InvalidCallError for one the ledger has never heard of."""
    found = _METERS.get(endpoint)
    if found is None:
        raise InvalidCallError(f"no meter for the endpoint {endpoint}")
    return found


def worst_case(call: Reserve, price: Price) -> WorstCase:
    """What the request may cost; InvalidCallError when the endpoint needs a unit price and there is none."""
    kind = meter(call.endpoint)
    if kind is Meter.CHAT:
        # Input may be written to the cache, at whatever that costs.
        return WorstCase(call.input_tokens * max(price.input, price.cache_write or 0), price.output, call.max_tokens)
    if kind in (Meter.HELD_INPUT, Meter.CAPPED_INPUT):
        return WorstCase(call.input_tokens * price.input, 0, 0)
    if price.unit is None:
        raise InvalidCallError(f"price {price.version} has no unit price")
    return WorstCase(call.units * price.unit * PER_MILLION_TOKENS, 0, 0)


def held_units(call: Reserve) -> int:
    """What a hold keeps of the request's size, for the meters whose charge depends on it."""
    kind = meter(call.endpoint)
    if kind is Meter.CHAT:
        return 0
    return call.input_tokens if kind in (Meter.HELD_INPUT, Meter.CAPPED_INPUT) else call.units


def worth(call: Settle, hold: Hold | None, price: Price, *, charge_interrupted: bool) -> Worth:
    """What a request that ended was worth.

    Chat without output, or broken off by the provider (unless ``charge_interrupted``), is worth nothing. Everything
    else never is worth more than was held. Without a hold (free and own-key requests) units are taken as told.
    """
    if call.outcome == "interrupted" and not charge_interrupted:
        return NOTHING
    kind = meter(call.endpoint)
    if kind is Meter.CHAT:
        if call.completion_tokens == 0:
            return NOTHING
        used = Tokens(call.prompt_tokens, call.completion_tokens, call.cached_tokens, call.cache_write_tokens)
        value = chat_cost(price, used)
        net = free_cache_cost(price, used) if hold is not None and hold.free_cache else value
        return Worth(value, net, call.prompt_tokens + call.completion_tokens)
    tokens = call.prompt_tokens + call.completion_tokens
    if kind is Meter.HELD_INPUT:
        units = hold.units if hold is not None else call.prompt_tokens
        value = Micros(-(-units * price.input // PER_MILLION_TOKENS))
    elif kind is Meter.CAPPED_INPUT:
        units = min(call.prompt_tokens, hold.units) if hold is not None else call.prompt_tokens
        value = Micros(units * price.input // PER_MILLION_TOKENS)
    else:
        units = min(call.units, hold.units) if hold is not None else call.units
        value = Micros(units * (price.unit or 0))
    return Worth(value, value, tokens)
