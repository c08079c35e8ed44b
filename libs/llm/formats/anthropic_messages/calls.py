"""Function calls of an answer: whether their arguments are whole, also while they arrive.

Used by the stream writer, which may only go on to the next block when a call is whole, and for whole answers.
"""

from typing import Any

from msgspec import DecodeError
from msgspec.json import Decoder

_decode_object = Decoder(dict[str, Any]).decode


class CallInStream:
    """One call; ``index`` is its number in the answer."""

    __slots__ = ("_is_new", "_is_whole", "_pieces", "id", "index", "name")

    def __init__(self, index: int, id: str, name: str) -> None:
        self.index = index
        self.id = id
        self.name = name
        self._pieces: list[str] = []
        self._is_new = False
        self._is_whole = False

    def add(self, arguments: str) -> None:
        """The next piece of the arguments."""
        self._pieces.append(arguments)
        self._is_new = True

    def arguments(self) -> str:
        """All pieces so far."""
        return "".join(self._pieces)

    def is_whole(self) -> bool:
        """Whether the arguments so far are a whole JSON object, so that nothing but white space can follow."""
        if self._is_new:
            self._is_new = False
            # All pieces are looked at only when the newest can be the last.
            self._is_whole = self._pieces[-1].rstrip().endswith("}") and is_object(self.arguments())
        return self._is_whole


def is_object(arguments: str) -> bool:
    """Whether arguments are the JSON object they should be."""
    try:
        _decode_object(arguments)
    except (DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True
