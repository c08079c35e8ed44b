"""The OpenAPI description of the public API: FastAPI's own for the reads, written here for the hot paths.

Called by app.py.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from libs.ops.telemetry import version
from services.edge.schemas import (
    ANTHROPIC_ERROR,
    CHAT_ANSWER,
    CHAT_REQUEST,
    COUNT,
    ERROR,
    KYARA_REQUEST,
    MESSAGES_ANSWER,
    MESSAGES_REQUEST,
    RESPONSES_ANSWER,
    RESPONSES_REQUEST,
    TEXT,
    TOKEN_COUNT,
    TOOL_KEY_REQUEST,
)


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_NO_KEY = {"description": "No usable key", "content": {"text/plain": {"schema": TEXT}}}


def _limited(description: str, error: dict[str, Any]) -> dict[str, Any]:
    """A 429, which is text where one address uses a shared key too often."""
    content = {"text/plain": {"schema": TEXT}, "application/json": {"schema": error}}
    return {"description": f"{description}, or too many requests with this key", "content": content}


_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A paid request with this key is run once within a day; a repeat gets the same answer",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def _chat_path(summary: str, request: dict[str, Any], answer: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    answered = {"application/json": {"schema": answer}, "text/event-stream": {"schema": TEXT}}
    described = {"description": "One JSON object, or server-sent events when stream is true", "content": answered}
    failures = {
        "400": "The request is invalid",
        "402": "It cannot be paid for",
        "403": "The key may not do this, or not from this address",
        "409": "Another request with this idempotency key is running, or its answer was not kept",
        "422": "This idempotency key stands for another request",
        "500": "Something failed inside kenari",
        "503": "No provider could answer",
    }
    return {
        "post": {
            "summary": summary,
            "parameters": [_IDEMPOTENCY_KEY],
            "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
            "responses": {
                "200": described,
                "401": _NO_KEY,
                **{status: _json(error, description) for status, description in failures.items()},
                "429": _limited("A limit is reached", error),
            },
        }
    }


_COUNT_PATH = {
    "post": {
        "summary": "Count the tokens of a message",
        "requestBody": {"required": True, "content": {"application/json": {"schema": MESSAGES_REQUEST}}},
        "responses": {
            "200": _json(TOKEN_COUNT, "An estimate; nothing is charged"),
            "400": _json(ANTHROPIC_ERROR, "The request is invalid"),
            "401": _NO_KEY,
            "403": _json(ANTHROPIC_ERROR, "The key may not be used from this address"),
            "429": _limited("Too many requests from one address with a shared key", ANTHROPIC_ERROR),
        },
    }
}
_HOT_PATHS = {
    "/v1/chat/completions": _chat_path("Create a chat completion", CHAT_REQUEST, CHAT_ANSWER, ERROR),
    "/v1/messages": _chat_path("Create a message", MESSAGES_REQUEST, MESSAGES_ANSWER, ANTHROPIC_ERROR),
    "/v1/messages/count_tokens": _COUNT_PATH,
    "/v1/responses": _chat_path("Create a response", RESPONSES_REQUEST, RESPONSES_ANSWER, ERROR),
    "/kyara/v1/chat/completions": _chat_path(
        "Create a chat completion (strict, text only)", KYARA_REQUEST, CHAT_ANSWER, ERROR
    ),
}

_READ_FAILED = {
    "description": "The key could not be looked up (text), or the account could not be read (JSON)",
    "content": {"text/plain": {"schema": TEXT}, "application/json": {"schema": ERROR}},
}
_WRONG_PARAMETER = _json(ERROR, "A parameter is wrong")
_FAILED = {
    "description": "The key could not be looked up (text), or something failed inside kenari (JSON)",
    "content": {"text/plain": {"schema": TEXT}, "application/json": {"schema": ERROR}},
}
_MANAGES_KEYS = {
    "401": _NO_KEY,
    "403": _json(
        ERROR, "The key is shared, restricted, not the one from a sign-in, or may not be used from this address"
    ),
    "429": _limited("Too many requests from one address with a shared key", ERROR),
    "500": _FAILED,
}
_READS_USAGE = {
    "401": _NO_KEY,
    "403": _json(ERROR, "The key is shared, or may not be used from this address"),
    "429": _limited("Too many reads of usage for this account", ERROR),
    "500": _READ_FAILED,
}
# By path and method, what FastAPI cannot see: answers that the error handlers give.
_READ_ERRORS = {
    ("/v1/models", "get"): {"400": _WRONG_PARAMETER},
    ("/v1/account/balance", "get"): {
        "401": _NO_KEY,
        "403": _json(ERROR, "The key is restricted or shared, or may not be used from this address"),
        "429": _limited("Too many requests from one address with a shared key", ERROR),
        "500": _READ_FAILED,
    },
    ("/v1/account/keys", "get"): _MANAGES_KEYS,
    ("/v1/account/keys", "post"): {
        **_MANAGES_KEYS,
        "400": _json(ERROR, "The body is wrong, or the account has as many keys as it may"),
        "409": _json(ERROR, "The login key has as many per-tool keys as it may"),
        "429": _limited("Too many keys were asked for within a minute", ERROR),
    },
    ("/v1/account/keys/{key_id}", "delete"): {
        **_MANAGES_KEYS,
        "404": _json(ERROR, "Not an active per-tool key of the calling key"),
    },
    **{
        (path, "get"): {**_READS_USAGE, "400": _WRONG_PARAMETER}
        for path in ("/v1/usage", "/v1/usage/daily", "/v1/usage/log")
    },
    ("/v1/usage/log/{request_id}", "get"): {
        **_READS_USAGE,
        "404": _json(ERROR, "Not a request of the account, or of the key when it is restricted"),
    },
}
_NAME = {"type": "string", "maxLength": 256}
# Read by hand in endpoints/usage_parameters.py, because a wrong one has to be named in the envelope of the API.
_USAGE_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "range": (
        {"enum": ["today", "24h", "7d", "30d"], "default": "30d"},
        "The window up to now, today since midnight UTC; ignored when start or end is given",
    ),
    "start": (COUNT, "First Unix second; without it 30 days before end"),
    "end": (COUNT, "Last Unix second, at most now; without it now"),
    "model": (_NAME, "Only requests to this model"),
    "api_key_id": (_NAME, "Only requests with this key; a restricted key may name none but itself"),
}
_USAGE_LOG_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    **_USAGE_PARAMETERS,
    "billing_kind": ({"enum": ["payg", "plan", "coupon", "token_alloc", "free", "byok"]}, "Only those paid this way"),
    "page": ({**COUNT, "default": 0}, "Counts from 0; page times limit is at most 10,000"),
    "limit": ({"type": "integer", "default": 50}, "Rows of a page; moves to the nearest of 1 to 200"),
}


def _describe_reads(schema: dict[str, Any]) -> None:
    for (path, method), errors in _READ_ERRORS.items():
        responses = schema["paths"][path][method]["responses"]
        # FastAPI's own shape for a wrong parameter is never answered here.
        responses.pop("422", None)
        responses.update(errors)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    # Read by hand: a wrong body has to be refused in the envelope of the API.
    schema["paths"]["/v1/account/keys"]["post"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": TOOL_KEY_REQUEST}},
    }
    for path, parameters in (
        ("/v1/usage", _USAGE_PARAMETERS),
        ("/v1/usage/daily", _USAGE_PARAMETERS),
        ("/v1/usage/log", _USAGE_LOG_PARAMETERS),
    ):
        schema["paths"][path]["get"]["parameters"] = [
            {"name": name, "in": "query", "required": False, "description": description, "schema": kind}
            for name, (kind, description) in parameters.items()
        ]


def install(app: FastAPI) -> None:
    """Make ``app`` describe at /openapi.json the hot paths too, and what its reads refuse."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title="kenari", version=version(), routes=app.routes)
            _describe_reads(schema)
            schema["paths"].update(_HOT_PATHS)
            schema["components"] = {
                **schema.get("components", {}),
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                },
            }
            schema["security"] = [{"bearer": []}, {"apiKey": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]
