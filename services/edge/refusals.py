"""Refusals of the limiter that still hold, so that a flood is refused here and reaches neither limiter nor router.

Used by limits.py and callers.py through limiter.py. Only refusals whose end the limiter knows are kept.
"""

import math
import time

from kenari.limiter.v1 import limiter_pb2

_MOST = 50_000

_Key = tuple[int, str, str, str, str]


class Refusals:
    """Refusals by who asked for what. Each is kept until its limit resets, but for at most ``most_s``.

    The latter bounds how long a limit that was raised, or money that was paid in, goes unnoticed.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        # The moment it ends, the moment it was given, and the refusal, by key.
        self._kept: dict[_Key, tuple[float, float, limiter_pb2.Refused]] = {}

    def still(self, question: limiter_pb2.AdmitRequest) -> limiter_pb2.Refused | None:
        """The refusal that this question would meet again; its Retry-After is what is left of it."""
        if not self._kept:
            return None
        key = _key(question)
        kept = self._kept.get(key)
        if kept is None:
            return None
        ends, given, refused = kept
        now = time.monotonic()
        if now >= ends:
            del self._kept[key]
            return None
        left_s = math.ceil(refused.retry_after_s - (now - given)) if refused.retry_after_s else 0
        return limiter_pb2.Refused(code=refused.code, limit=refused.limit, retry_after_s=left_s)

    def keep(self, question: limiter_pb2.AdmitRequest, refused: limiter_pb2.Refused) -> None:
        """Note a refusal, if it says how long it holds."""
        hold_s = min(refused.again_ms / 1000, self._most_s)
        if hold_s <= 0:
            return
        now = time.monotonic()
        if len(self._kept) >= _MOST:
            self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > now}
            if len(self._kept) >= _MOST:
                self._kept.clear()
        self._kept[_key(question)] = (now + hold_s, now, refused)


def _key(question: limiter_pb2.AdmitRequest) -> _Key:
    # Limits of paid requests do not depend on the model.
    model = question.model if question.subject == limiter_pb2.SUBJECT_FREE_CHAT else ""
    return question.subject, question.account_id, model, question.key_id, question.address
