"""The OpenAPI description of the public API: FastAPI's own for the reads, written here for the hot paths.

Called by app.py.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from libs.ops.telemetry import version

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}

_CHAT_REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": _TEXT,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
                    "content": {"oneOf": [_TEXT, {"type": "array", "items": {"type": "object"}}, {"type": "null"}]},
                },
            },
        },
        "stream": {"type": "boolean", "default": False},
        "max_tokens": {"type": "integer", "minimum": 1, "description": "Default 65,536, within the model's own limit"},
        "max_completion_tokens": {"type": "integer", "minimum": 1, "description": "max_tokens wins when both are sent"},
        "temperature": {"type": "number"},
        "top_p": {"type": "number"},
        "stop": {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]},
        "n": {"const": 1},
        "user": _TEXT,
    },
    "additionalProperties": True,
}
_USAGE = {
    "type": "object",
    "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
    "properties": {"prompt_tokens": _COUNT, "completion_tokens": _COUNT, "total_tokens": _COUNT},
}
_CHAT_ANSWER = {
    "type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage"],
    "properties": {
        "id": _TEXT,
        "object": {"const": "chat.completion"},
        "created": {"type": "integer"},
        "model": _TEXT,
        "choices": {"type": "array", "items": {"type": "object"}},
        "usage": _USAGE,
    },
}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {"message": _TEXT, "type": _TEXT, "param": {"type": ["string", "null"]}, "code": _TEXT},
        }
    },
}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_NO_KEY = {"description": "No usable key", "content": {"text/plain": {"schema": _TEXT}}}
_CHAT_PATH = {
    "post": {
        "summary": "Create a chat completion",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _CHAT_REQUEST}}},
        "responses": {
            "200": {
                "description": "One JSON object, or server-sent events when stream is true",
                "content": {
                    "application/json": {"schema": _CHAT_ANSWER},
                    "text/event-stream": {"schema": _TEXT},
                },
            },
            "401": _NO_KEY,
            **{
                status: _json(_ERROR, description)
                for status, description in {
                    "400": "The request is invalid",
                    "402": "It cannot be paid for",
                    "403": "The key may not do this",
                    "429": "A limit is reached",
                    "500": "Something failed inside kenari",
                    "503": "No provider could answer",
                }.items()
            },
        },
    }
}

_READ_FAILED = {
    "description": "The key could not be looked up (text), or the account could not be read (JSON)",
    "content": {"text/plain": {"schema": _TEXT}, "application/json": {"schema": _ERROR}},
}
_WRONG_PARAMETER = _json(_ERROR, "A parameter is wrong")
# By path, what FastAPI cannot see: answers that the error handlers give.
_READ_ERRORS = {
    "/v1/models": {"400": _WRONG_PARAMETER},
    "/v1/account/balance": {
        "401": _NO_KEY,
        "403": _json(_ERROR, "The key is restricted or shared"),
        "500": _READ_FAILED,
    },
    "/v1/usage/log": {
        "400": _WRONG_PARAMETER,
        "401": _NO_KEY,
        "403": _json(_ERROR, "The key is shared"),
        "429": _json(_ERROR, "Too many reads of the log for this account"),
        "500": _READ_FAILED,
    },
}
_NAME = {"type": "string", "maxLength": 256}
# Read by hand in endpoints/usage.py, because a wrong one has to be named in the envelope of the API.
_USAGE_LOG_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "range": (
        {"enum": ["today", "24h", "7d", "30d"], "default": "30d"},
        "The window up to now, today since midnight UTC; ignored when start or end is given",
    ),
    "start": (_COUNT, "First Unix second; without it 30 days before end"),
    "end": (_COUNT, "Last Unix second, at most now; without it now"),
    "model": (_NAME, "Only requests to this model"),
    "api_key_id": (_NAME, "Only requests with this key; a restricted key may name none but itself"),
    "billing_kind": ({"enum": ["payg", "plan", "coupon", "token_alloc", "free", "byok"]}, "Only those paid this way"),
    "page": ({**_COUNT, "default": 0}, "Counts from 0; page times limit is at most 10,000"),
    "limit": ({"type": "integer", "default": 50}, "Rows of a page; moves to the nearest of 1 to 200"),
}


def _describe_reads(schema: dict[str, Any]) -> None:
    for path, errors in _READ_ERRORS.items():
        responses = schema["paths"][path]["get"]["responses"]
        # FastAPI's own shape for a wrong parameter is never answered here.
        responses.pop("422", None)
        responses.update(errors)
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
    schema["paths"]["/v1/usage/log"]["get"]["parameters"] = [
        {"name": name, "in": "query", "required": False, "description": description, "schema": kind}
        for name, (kind, description) in _USAGE_LOG_PARAMETERS.items()
    ]


def install(app: FastAPI) -> None:
    """Make ``app`` describe at /openapi.json the hot paths too, and what its reads refuse."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title="kenari", version=version(), routes=app.routes)
            _describe_reads(schema)
            schema["paths"]["/v1/chat/completions"] = _CHAT_PATH
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
