"""Mends characters that a provider cut in two between chunks: JSON escapes of one UTF-16 half each.

Called by the stream decoder for a chunk that does not decode; such halves are valid in JSON but no text.
"""

import re

_ESCAPES = re.compile(
    rb"""\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})(?P<pair>\\u[dD][c-fC-F][0-9a-fA-F]{2})?
       | \\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
       | \\.""",
    re.VERBOSE | re.DOTALL,
)
_REPLACEMENT = rb"\ufffd"


class SurrogateMender:
    """Keeps the first half at the end of one string for the beginning of the next."""

    def __init__(self) -> None:
        self._high = b""

    def mend(self, data: bytes) -> bytes:
        """The chunk with whole characters only; halves that find no other become U+FFFD."""

        def one(match: re.Match[bytes]) -> bytes:
            if match["low"]:
                high, self._high = self._high, b""
                starts = data[match.start() - 1 : match.start()] == b'"'
                return rb"\u" + high + match[0] if high and starts else _REPLACEMENT
            if not match["high"] or match["pair"]:
                return match[0]
            if data[match.end() : match.end() + 1] != b'"':
                return _REPLACEMENT
            self._high = match["high"]
            return b""

        return _ESCAPES.sub(one, data)
