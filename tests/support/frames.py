"""Cuts what a client received of a stream into frames, strictly by the contract (Streaming, Turn on streaming).
Used by the joiners and by tests that look at single frames.
"""

import json
from dataclasses import dataclass
from typing import Any

KEEPALIVE = ": keepalive"


@dataclass(frozen=True)
class Frame:
    """One event; ``event`` is "" where the frame has a data line only."""

    event: str
    data: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.data)
        assert isinstance(found, dict), f"not an object: {self.data}"
        return found


def frames(raw: bytes) -> list[Frame]:
    """The events of a whole stream. Raise AssertionError for anything a frame may not be.

    Allowed: one data line, before it at most one event line, after it one blank line; between frames the
    keepalive comment.
    """
    text = raw.decode()
    assert "\r" not in text, "lines end in LF"
    assert text.endswith("\n\n"), f"the last frame is not closed: {text[-80:]!r}"
    found = []
    for block in text[:-2].split("\n\n"):
        if block == KEEPALIVE:
            continue
        *named, data = block.split("\n")
        assert data.startswith("data: "), f"not a data line: {data!r}"
        assert len(named) <= 1, f"more than two lines: {block!r}"
        assert all(line.startswith("event: ") for line in named), f"not an event line: {named}"
        found.append(Frame(named[0].removeprefix("event: ") if named else "", data.removeprefix("data: ")))
    return found
