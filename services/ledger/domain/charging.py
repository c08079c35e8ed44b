"""What an outcome costs: from usage and the way a request ended to cost and catalogue value.

Called by posting.py (contract: No output, no charge; decisions 3 and 5 on interrupted and closed streams).
"""

import msgspec

from libs.core.money import Micros
from services.ledger.domain.calls import Settle
from services.ledger.domain.pricing import Price, Tokens, chat_cost

NOTHING = Micros(0)


class Charge(msgspec.Struct, frozen=True, gc=False):
    """``cost`` is taken from the balance, ``catalog`` is the value at list price."""

    cost: Micros
    catalog: Micros


def charge(call: Settle, price: Price, *, charge_interrupted: bool) -> Charge:
    """Price a settlement.

    Without output nothing is charged and nothing counts. A stream the client closed is charged for what the edge
    reports (the provider's figures or its own estimate). One the provider broke off is free unless
    ``charge_interrupted``. Only payg takes money; all other kinds have a catalogue value alone.
    """
    if call.completion_tokens == 0 or (call.outcome == "interrupted" and not charge_interrupted):
        return Charge(NOTHING, NOTHING)
    value = chat_cost(
        price, Tokens(call.prompt_tokens, call.completion_tokens, call.cached_tokens, call.cache_write_tokens)
    )
    return Charge(value if call.billing_kind == "payg" else NOTHING, value)
