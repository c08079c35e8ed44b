"""Gives calls ids that Anthropic takes: of letters, digits, ``_`` and ``-``, none twice in a conversation.

Called by the request writers beside it; ids of other providers have any form (``functions.f:0``, ``call_0`` again).
"""

import re
from hashlib import blake2b

_TAKEN = re.compile(r"[A-Za-z0-9_-]{1,256}", re.ASCII)


def accepted(id: str) -> str:
    """The id itself if it can be sent, else one made from it: always the same, so that cached prefixes stay valid."""
    return id if _TAKEN.fullmatch(id) else "call_" + blake2b(id.encode("utf-8", "replace"), digest_size=12).hexdigest()


class CallIds:
    """The ids of one conversation, in order."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def of_next(self, id: str) -> str:
        """The id for the next call, which the client knows as ``id``."""
        wire, count = accepted(id), 1
        while wire in self._used:
            count += 1
            wire = f"{accepted(id)[:240]}_{count}"
        self._used.add(wire)
        return wire
