"""Pieces of Gemini streams as the service sends them."""

from typing import Any

from tests.support.provider import event

USAGE = {
    "promptTokenCount": 14,
    "cachedContentTokenCount": 8,
    "candidatesTokenCount": 2,
    "thoughtsTokenCount": 4,
    "totalTokenCount": 20,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 14}],
}


def answer(*parts: Any, reason: str | None = "STOP", usage: Any = USAGE, **members: Any) -> dict[str, Any]:
    """A whole answer, or a chunk of one; every chunk counts what was used so far."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": "vendor/real", "responseId": "r"}
    if usage is not None:
        body["usageMetadata"] = usage
    return body | members


def chunk(*parts: Any, used: int = 1) -> bytes:
    return event(answer(*parts, reason=None, usage={"promptTokenCount": 14, "candidatesTokenCount": used}))


def last(*parts: Any, reason: str | None = "STOP", usage: Any = USAGE) -> bytes:
    return event(answer(*parts, reason=reason, usage=usage))


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def thought(said: str) -> dict[str, Any]:
    return {"text": said, "thought": True}


def call(name: str = "look", proof: str | None = None, **args: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, "args": args}}
    return part | {"thoughtSignature": proof} if proof else part


def error(code: int, status: str, message: str = "vendor text", *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}
