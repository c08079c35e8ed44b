"""Lets the client say the same thing once in half a minute: while a broker is away it says it ten times a second.

Installed once by bus.py; our own lines say what matters, these only say more.
"""

import logging
import time

_EVERY_S = 30.0


class _Seldom(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        said = f"{record.name} {record.msg}"
        if now - self._last.get(said, -_EVERY_S) < _EVERY_S:
            return False
        self._last[said] = now
        return True


def install() -> None:
    """Quiet all loggers of aiokafka, which have to exist by now (a filter does not pass on to children)."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.split(".")[0] == "aiokafka" and isinstance(logger, logging.Logger) and not logger.filters:
            logger.addFilter(_Seldom())
