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
            "401": {"description": "No usable key", "content": {"text/plain": {"schema": _TEXT}}},
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


def install(app: FastAPI) -> None:
    """Make ``app`` describe the hot paths too at /openapi.json."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title="kenari", version=version(), routes=app.routes)
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
