"""A dictionary that forgets its oldest entries: memory of this process stays bounded under any traffic.

Used by local.py and memory.py, whose entries are hints or lose their meaning within a minute.
"""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """At most ``size`` entries; writing one makes it the newest."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)
