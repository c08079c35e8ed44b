"""What tokens and units cost, what must be held for them, and how many output tokens fit into an amount.

Used by admission.py and settling.py; amounts are micro-Rupiah (rules R1-R7, R26, R27).
"""

from dataclasses import dataclass

MILLION = 1_000_000
LOWEST = 1_024
"""The fewest output tokens a request is lowered to."""
SOFT_OUTPUT = 4_096
"""Output tokens that a running request is expected to use of a quota."""


@dataclass(frozen=True)
class Price:
    """A price version: micro-Rupiah per million tokens, and per unit where something else is billed."""

    version: str
    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    unit: int | None = None

    @property
    def read(self) -> int:
        return self.input if self.cache_read is None else min(self.cache_read, self.input)

    @property
    def write(self) -> int:
        return self.input if self.cache_write is None else self.cache_write

    @property
    def dearest_input(self) -> int:
        return max(self.input, self.write)


@dataclass(frozen=True)
class Used:
    """What one request used. Cache tokens are part of ``prompt``; ``units`` counts images, seconds, pages, songs."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    written: int = 0
    units: int = 0

    @property
    def fresh(self) -> int:
        return max(0, self.prompt - self.cached - self.written)


def rounded_down(product: int) -> int:
    """Tokens times price per million, as a charge."""
    return product // MILLION


def rounded_up(product: int) -> int:
    """Tokens times price per million, as a hold."""
    return -(-product // MILLION)


def worst_case(price: Price, est_input: int, max_tokens: int) -> int:
    """The most a request can cost, its input all written to the cache where that is dearer."""
    return rounded_up(est_input * price.dearest_input + max_tokens * price.output)


def expected(price: Price, est_input: int, max_tokens: int) -> int:
    """What a running request is expected to take of a quota or a coupon."""
    return worst_case(price, est_input, min(max_tokens, SOFT_OUTPUT))


def most_tokens(price: Price, est_input: int, room: int, asked: int) -> int:
    """The most output tokens, ``asked`` at most, whose worst case is not above ``room``; -1: not even none."""
    left = room * MILLION - est_input * price.dearest_input
    if left < 0:
        return -1
    return asked if price.output == 0 else min(asked, left // price.output)


def lowered(most: int, asked: int) -> int | None:
    """What a request of ``asked`` output tokens runs with when ``most`` fit, None when it may not run."""
    if most >= asked:
        return asked
    return most if asked > LOWEST and most >= LOWEST else None


def full_value(price: Price, used: Used) -> int:
    """List value of a chat request."""
    return rounded_down(
        used.fresh * price.input
        + used.cached * price.read
        + used.written * price.write
        + used.completion * price.output
    )


def value_without_cache(price: Price, used: Used) -> int:
    """The same with the cache tokens free."""
    return rounded_down(used.fresh * price.input + used.completion * price.output)
