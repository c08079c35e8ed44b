"""How each kind of endpoint holds and charges (rules R7, R24, R28, R39-R50).

Asked by admission.py and settling.py.
"""

from tests.money.model.facts import Ask
from tests.money.model.prices import Used, full_value, rounded_down, rounded_up, value_without_cache, worst_case

CHAT = frozenset({"chat", "messages", "responses"})
ESTIMATED = frozenset({"embeddings", "rerank", "moderations"})
BOUNDED = frozenset({"systemone"})
ALLOWANCE = frozenset({"web_search", "page_fetch"})
FEES = ALLOWANCE | {"x_search"}


def hold_amount(ask: Ask, max_tokens: int) -> int:
    """The worst case of a request that may make ``max_tokens``, at list price."""
    if ask.endpoint in CHAT:
        return worst_case(ask.price, ask.est_input, max_tokens)
    if ask.endpoint in ESTIMATED | BOUNDED:
        return rounded_up(ask.est_input * ask.price.input)
    return ask.units * (ask.price.unit or 0)


def list_value(ask: Ask, used: Used) -> int:
    """What a request is worth at list price, once it has output."""
    if ask.endpoint in CHAT:
        return full_value(ask.price, used)
    if ask.endpoint in ESTIMATED:
        return hold_amount(ask, 0)
    if ask.endpoint in BOUNDED:
        return rounded_down(min(used.prompt, ask.est_input) * ask.price.input)
    return min(used.units, ask.units) * (ask.price.unit or 0)


def net_value(ask: Ask, used: Used, *, free_cache: bool) -> int:
    """The same as far as it spends quota or balance."""
    if free_cache and ask.endpoint in CHAT:
        return value_without_cache(ask.price, used)
    return list_value(ask, used)


def is_empty(ask: Ask, used: Used) -> bool:
    """Whether nothing was delivered that costs: only answers made of tokens can be empty."""
    return ask.endpoint in CHAT and used.completion == 0


def expected_tokens(ask: Ask, max_tokens: int) -> int:
    """Tokens to keep of a key's token cap for a request that may make ``max_tokens``."""
    return ask.est_input + max_tokens
