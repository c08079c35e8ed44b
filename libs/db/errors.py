"""Which failures of a database call pass by themselves, and what the caller may believe about its outcome.

Used by database.py; services catch DatabaseAwayError (or Transient) and nothing of asyncpg's for this.
"""

import asyncpg

from libs.core.errors import Transient

# Rolled back for certain, and likely to succeed when tried again: conflicts with others, timeouts of ours,
# too few resources.
_BUSY = ("40", "53", "55P03", "57014", "25P03")
# The server is going or gone. Whether a commit under way happened is not known.
_GONE = ("08", "57P", "58", "XX")


class DatabaseAwayError(Transient):
    """The database did not do it, or nobody knows whether it did. Ask again under the same id.

    ``reason`` is ``database_busy`` (nothing happened) or ``database_away`` (unknown outcome).
    """

    reason = "database_away"


FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""Everything that using a connection can raise by itself."""


def away(error: BaseException) -> DatabaseAwayError | None:
    """The error as one of ours; None when the server understood the statement and refused it for good.

    A backend that is killed can surface as nearly anything in the client, so whatever is not an answer of the
    server counts as an unknown outcome.
    """
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        if state.startswith(_BUSY):
            return DatabaseAwayError(f"{type(error).__name__}: {error}", reason="database_busy")
        if state.startswith(_GONE):
            return DatabaseAwayError(f"{type(error).__name__}: {error}")
        return None
    return DatabaseAwayError(f"{type(error).__name__}: {error}") if isinstance(error, FAILURES) else None
