"""Recognises the chunks of one stream that differ in one string only, at a fraction of a full decode's cost.

Called by the stream decoder; learns from a chunk that was decoded in full.
"""

from collections.abc import Callable

from msgspec.json import Decoder

_PROBE = b'"kenari \\u00e9 probe"'
_PROBE_TEXT = "kenari é probe"
_UNMATCHABLE = b"\x00"

_decode_text = Decoder(str).decode


class Template:
    """The bytes before and after the string. Empty at first: then it matches nothing.

    Whatever stands between the two must decode as one JSON string, so a match is as good as decoding the
    whole chunk: everything around the string is, byte for byte, what was decoded when it was learned.
    """

    __slots__ = ("_after", "_before", "_from", "_to")

    def __init__(self) -> None:
        self._before = _UNMATCHABLE
        self._after = _UNMATCHABLE
        self._from = self._to = 0

    def match(self, data: bytes) -> bytes | None:
        """The string's JSON, still to be decoded; None when the chunk is of another shape."""
        if data.startswith(self._before) and data.endswith(self._after):
            return data[self._from : self._to]
        return None

    def learn(self, data: bytes, string: bytes, read_back: Callable[[bytes], str | None]) -> None:
        """Take ``data`` as the pattern, ``string`` (quotes included) being its varying part.

        ``read_back`` decodes a chunk in full and returns that string's text, None when the chunk says
        anything else besides: it proves that the right place was found.
        """
        place = data.find(string, data.find(b'"delta"'))
        if place < 0:
            return
        before, after = data[: place + 1], data[place + len(string) - 1 :]
        if read_back(before[:-1] + _PROBE + after[1:]) == _PROBE_TEXT:
            self._before, self._after = before, after
            self._from, self._to = len(before) - 1, 1 - len(after)


def text_of(json: bytes) -> str:
    """The text of a JSON string; raises msgspec's ``DecodeError`` for anything else."""
    return _decode_text(json)
