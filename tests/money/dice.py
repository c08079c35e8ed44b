"""Choices of a random story of money: made by Hypothesis, which can shrink them, or by a seed, which is faster.

Used by stories.py.
"""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Dice(Protocol):
    """Whole numbers within bounds, both included, and elements of a sequence."""

    def number(self, low: int, high: int) -> int: ...

    def pick(self, among: Sequence[T]) -> T: ...


class Shrinkable:
    """Dice of one Hypothesis example."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def number(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def pick(self, among: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(among))


class Seeded:
    """Dice that fall the same way for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, among: Sequence[T]) -> T:
        return self._random.choice(among)
