"""What chat tokens cost (contract: Price dimensions, How a chat request is charged).

The ledger charges by it, the edge tells the cost of an answer by it. Products are unbounded integers and are rounded
once, over the sum: a hold up, a charge down, so that neither side ever loses more than a micro-Rupiah.
"""

import msgspec

from libs.core.money import PER_MILLION_TOKENS, Micros

LOWEST_MAX_TOKENS = 1024
"""Fewer output tokens than this are not worth starting for: below it a request is refused, not lowered."""


class Price(msgspec.Struct, frozen=True, gc=False):
    """A price version, in micro-Rupiah per million tokens; None where the input price applies."""

    version: str
    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    # For one image, second, song, page or call; None where tokens are the unit.
    unit: int | None = None


class Tokens(msgspec.Struct, frozen=True, gc=False):
    """What a request used. ``prompt`` includes what was read from and written to the cache."""

    prompt: int
    completion: int
    cached: int = 0
    cache_write: int = 0


def chat_cost(price: Price, tokens: Tokens) -> Micros:
    """The list price of a chat request. Reading from the cache never costs more than the input price."""
    read_price = price.input if price.cache_read is None else min(price.cache_read, price.input)
    write_price = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, tokens.prompt - tokens.cached - tokens.cache_write)
    product = (
        fresh * price.input
        + tokens.cached * read_price
        + tokens.cache_write * write_price
        + tokens.completion * price.output
    )
    return Micros(product // PER_MILLION_TOKENS)


def free_cache_cost(price: Price, tokens: Tokens) -> Micros:
    """The same where reading from and writing to the cache spend nothing (contract: Free cache)."""
    fresh = max(0, tokens.prompt - tokens.cached - tokens.cache_write)
    return Micros((fresh * price.input + tokens.completion * price.output) // PER_MILLION_TOKENS)
