"""Recognises the chunks of one stream that differ in one string only, at a fraction of a full decode's cost.

Called by the stream decoder; learns from a chunk that was decoded in full.
"""

from collections.abc import Callable

from msgspec import DecodeError
from msgspec.json import Decoder

_PROBE = b'"kenari \\u00e9 probe"'
_PROBE_TEXT = "kenari é probe"
_UNMATCHABLE = b"\x00"

text_of = Decoder(str).decode
"""The text of a JSON string; raises ``DecodeError`` for anything else."""


class Template:
    """A chunk matches when it starts with ``before`` and ends with ``after``; both include one of the quotes.

    What stands from ``start`` to ``end`` must then decode as one JSON string, so a match is as good as
    decoding the whole chunk: all around the string is, byte for byte, what was decoded when it was learned.
    """

    __slots__ = ("after", "before", "end", "start")

    def __init__(self) -> None:
        self.before = self.after = _UNMATCHABLE
        self.start = self.end = 0

    def learn(self, data: bytes, string: bytes, read_back: Callable[[bytes], str | None]) -> bool:
        """Take ``data`` as the pattern, ``string`` (quotes included) being its varying part; false if it cannot be one.

        ``read_back`` decodes a chunk in full and returns that string's text, None when the chunk says
        anything else besides: it proves that the right place was found.
        """
        place = data.find(string, data.find(b'"delta"'))
        if place < 0:
            return False
        before, after = data[: place + 1], data[place + len(string) - 1 :]
        try:
            proof = read_back(before[:-1] + _PROBE + after[1:])
        except DecodeError:
            return False  # the string's bytes first stand somewhere else, such as across two other strings
        if proof != _PROBE_TEXT:
            return False
        self.before, self.after = before, after
        self.start, self.end = len(before) - 1, 1 - len(after)
        return True
