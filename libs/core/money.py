"""Money as whole micro-Rupiah, and how it is shown.

Called by everything that prices, holds, charges or prints an amount (contract: How billing works).
"""

from typing import NewType

Micros = NewType("Micros", int)
"""An amount in micro-Rupiah: Rp 1 is 1,000,000."""

PER_RUPIAH = 1_000_000
PER_MILLION_TOKENS = 1_000_000


def rupiah(amount: int) -> Micros:
    """Whole Rupiah as micro-Rupiah."""
    return Micros(amount * PER_RUPIAH)


def floor_rupiah(amount: Micros) -> str:
    """``Rp 19,589``: rounded down, as balances are shown."""
    return f"Rp {amount // PER_RUPIAH:,}"


def ceil_rupiah(amount: Micros) -> str:
    """``Rp 21,500``: rounded up, as worst cases are shown."""
    return f"Rp {-(-amount // PER_RUPIAH):,}"
