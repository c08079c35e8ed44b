"""Choices of a random story of money: the same ones for the same seed.

Used by stories.py.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Whole numbers within bounds, both included, and elements of a sequence."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, among: Sequence[T]) -> T:
        return self._random.choice(among)

    def some(self, among: Sequence[T], most: int) -> list[T]:
        """Up to that many different elements, in any order."""
        return self._random.sample(among, self._random.randint(0, min(most, len(among))))
