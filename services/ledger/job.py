"""One call on its way through the queue, whoever waits for its answer.

Made by rpc.py (check streams, unary calls) and consumers.py (events); finished by posting.py.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import TypeAlias

from libs.core.pricing import Price
from services.ledger.domain.calls import (
    Charged,
    Denied,
    Granted,
    NotDoneError,
    Redirected,
    RefusedError,
    Release,
    Released,
    Reserve,
    Settle,
    Settled,
)

Call: TypeAlias = Reserve | Settle | Release
Answer: TypeAlias = Granted | Denied | Redirected | Charged | Settled | Released

REFUSALS = frozenset(
    {"already_finished", "other_content", "request_id_time", "unknown_hold", "other_account", "invalid"}
)
"""Reasons that asking again cannot change; all others are outcomes nobody knows, or a lack of time or room."""


class Job(ABC):
    """A call with its price."""

    __slots__ = ("call", "ident", "price", "trace")

    def __init__(self, call: Call, trace: str = "") -> None:
        self.call = call
        self.ident = (call.request_id, call.line)
        self.trace = trace
        self.price: Price | None = None

    @abstractmethod
    def done(self, answer: Answer) -> None:
        """Give the answer to whoever waits."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """Say why there is none."""

    @abstractmethod
    def expired(self) -> bool:
        """Whether nobody waits any more."""


class AwaitedJob(Job):
    """A job whose answer a task waits for in ``answer``; failures are NotDoneError or RefusedError."""

    __slots__ = ("answer",)

    def __init__(self, call: Call, trace: str = "") -> None:
        super().__init__(call, trace)
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def done(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, reason: str) -> None:
        if not self.answer.done():
            kind = RefusedError if reason in REFUSALS else NotDoneError
            self.answer.set_exception(kind(f"{type(self.call).__name__.lower()}: {reason}", reason=reason))

    def expired(self) -> bool:
        # A deadline of the caller cancels the future.
        return self.answer.done()
