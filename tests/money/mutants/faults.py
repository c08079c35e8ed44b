"""What a fault put into the ledger is, and how it gets into the text.

The faults themselves are in decisions.py, movements.py and books.py, joined in __main__.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Edits of the file at ``path``, each of a text that occurs once. ``suite``: the tests that should notice."""

    name: str
    what: str
    path: str
    edits: tuple[tuple[str, str], ...]
    suite: str


def applied(fault: Fault, text: str) -> str:
    """The file with the fault; raise ValueError when one of its places is gone or not unique."""
    for old, new in fault.edits:
        if text.count(old) != 1:
            raise ValueError(f"{fault.name}: {old!r} occurs {text.count(old)} times in {fault.path}")
        text = text.replace(old, new)
    return text
