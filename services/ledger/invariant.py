"""One question to the books that finds the rows which break a rule.

Used by invariants.py and funding_invariants.py.
"""

import msgspec


class Invariant(msgspec.Struct, frozen=True):
    """``breaks`` selects the rows that break ``rule``. ``quick`` ones read indexes and wallets only."""

    name: str
    rule: str
    quick: bool
    breaks: str
