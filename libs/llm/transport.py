"""How adapters reach a provider: one method, so that tests and other clients can stand in for HTTP.

Implemented by ``http_transport``; called by provider adapters, never by the edge.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct


class Call(Struct, frozen=True, kw_only=True):
    """One POST to a provider. Waits in seconds, as in ``Target``."""

    base_url: str
    path: str
    body: bytes
    headers: Mapping[str, str]
    connect_s: float
    first_byte_s: float
    idle_s: float
    content_s: float


class Reply(Protocol):
    """The head of an answer, and its body to be read on."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Case-insensitive."""
        ...

    async def read(self) -> bytes:
        """What the next read brings; ``b""`` at the end of a body that ended as its framing says.

        Raises ``ProviderFailure``: timeout, or interrupted.
        """
        ...

    async def read_all(self, limit: int) -> bytes:
        """The rest of the body; raises ``ProviderFailure``: as ``read``, timeout also when the whole of it takes
        longer than ``content_s``, and junk when it is longer than ``limit`` bytes.
        """
        ...

    def ended(self) -> None:
        """The format's last event has come: what follows is of no interest, the connection may go on serving."""
        ...


class Transport(Protocol):
    """Sends calls. Failures before the head of the answer are ``ProviderFailure`` (refused, timeout, junk)."""

    def send(self, call: Call) -> AbstractAsyncContextManager[Reply]:
        """The answer while it arrives. Leaving before its end closes the connection."""
        ...
