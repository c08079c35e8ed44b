"""The faults: each one edit of the ledger's Python or SQL, as a text and what stands in its place.

Read by __main__.py and by a test that keeps them applicable.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """``old`` occurs once in the file at ``path``. ``suites``: where it should be noticed first."""

    name: str
    what: str
    path: str
    old: str
    new: str
    suites: tuple[str, ...] = ()


def applied(fault: Fault, text: str) -> str:
    """The file with the fault; raise ValueError when its place is gone or not unique."""
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: {fault.old!r} occurs {text.count(fault.old)} times in {fault.path}")
    return text.replace(fault.old, fault.new)


FAULTS: tuple[Fault, ...] = ()
