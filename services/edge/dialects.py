"""The ways of speaking to the chat endpoint, and how each differs from the others at the door.

Made by app.py, one per path; read by the chat endpoint.
"""

import secrets
import string
from dataclasses import dataclass

from msgspec import Raw
from msgspec.json import encode
from msgspec.structs import replace

from libs.llm.canonical import ChatRequest
from libs.llm.failures import ApiError
from libs.llm.formats.base import ClientFormat
from libs.llm.identity import Identity
from services.edge.errors import PlainRefusedError
from services.edge.exchange import JSON, TEXT, Header
from services.edge.keys import Caller

_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Dialect:
    """``endpoint`` names it in usage and metrics, ``name`` in events."""

    endpoint: str
    name: str
    format: ClientFormat
    # Conversations are told apart by what they begin with when the client names none.
    derives_sessions: bool = True
    # Agents that speak it cannot work without calls: tools for a model known not to call are refused.
    needs_tool_calls: bool = False

    @property
    def most_bytes(self) -> int | None:
        """The largest body, where it is less than the edge's own limit."""
        return None

    def identity(self, request_id: str, model: str, created: int) -> Identity:
        """How the answer names itself."""
        return Identity(id=request_id, model=model, created=created)

    def completed(self, request: ChatRequest, caller: Caller) -> ChatRequest:
        """The request with what the dialect fills in for its caller."""
        return request

    def plain(self, refused: PlainRefusedError) -> tuple[int, bytes, Header]:
        """A refusal from before the API: status, body and content type (contract: Errors, Plain-text responses)."""
        return refused.status, refused.text.encode(), TEXT


_PLAIN_CODES = {401: "invalid_api_key", 413: "request_too_large", 429: "rate_limit_exceeded"}


@dataclass(frozen=True)
class KyaraDialect(Dialect):
    """The strict second dialect: JSON for every refusal, ids of its own, smaller bodies, one session per account."""

    derives_sessions: bool = False

    @property
    def most_bytes(self) -> int | None:
        return 16 * 1024 * 1024

    def identity(self, request_id: str, model: str, created: int) -> Identity:
        unique = "".join(secrets.choice(_LETTERS) for _ in range(16))
        return Identity(id=f"gen-{created}-{unique}", model=model, created=created)

    def completed(self, request: ChatRequest, caller: Caller) -> ChatRequest:
        if request.user is not None:
            return request
        fields = {**request.fields, "user": Raw(encode(caller.account_id))}
        return replace(request, user=caller.account_id, fields=fields)

    def plain(self, refused: PlainRefusedError) -> tuple[int, bytes, Header]:
        code = _PLAIN_CODES.get(refused.status, "internal_error")
        status, body = self.format.render_error(ApiError(status=refused.status, code=code, message=refused.text))
        return status, body, JSON
