"""Messages bodies for the tests beside this module, and what becomes of them."""

import json
from typing import Any

from libs.llm.canonical import ChatRequest
from libs.llm.formats.anthropic_messages import FORMAT

HI = {"role": "user", "content": "Hi"}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PICTURE_AT = {"type": "image", "source": {"type": "url", "url": "https://images.example/a.png"}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "pong"}
TOOL = {"name": "ping", "description": "Pings.", "input_schema": {"type": "object"}}


def body(**members: Any) -> bytes:
    """A body of one greeting with ``members`` in place; None stands for null."""
    return json.dumps({"model": "m", "messages": [HI]} | members).encode()


def without(name: str) -> bytes:
    """The body of ``body()`` without a member."""
    return json.dumps({key: value for key, value in json.loads(body()).items() if key != name}).encode()


def turns(*messages: Any) -> bytes:
    """A body of these messages."""
    return body(messages=list(messages))


def user(*blocks: Any) -> dict[str, Any]:
    """A user turn of blocks."""
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    """An assistant turn of blocks."""
    return {"role": "assistant", "content": list(blocks)}


def text(value: Any) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": value}


def parse(raw: bytes, **headers: str) -> ChatRequest:
    """The request of a body; headers by name with underscores."""
    sent = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return FORMAT.parse(raw, sent.get)


def passed(request: ChatRequest, name: str) -> Any:
    """What a provider of the same format gets of a member."""
    return json.loads(bytes(request.fields[name]))
