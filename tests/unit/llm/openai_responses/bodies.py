"""Bodies as clients of the Responses format send them, and what is read from one.
Used by the tests beside this file.
"""

import json
from typing import Any

from libs.llm.canonical import ChatRequest
from libs.llm.formats.openai_responses import FORMAT

HI = {"role": "user", "content": "Hi"}
PNG = "data:image/png;base64,iVBORw0KGgo="
TOOL = {"type": "function", "name": "get_weather", "description": "Weather", "parameters": {"type": "object"}}
SEAL = "kn1.eyJ1IjoieCJ9"


def body(**members: Any) -> bytes:
    """A body that is right but for ``members``; ``...`` leaves a member out."""
    whole = {"model": "m", "input": "Hi"} | members
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


def parse(raw: bytes) -> ChatRequest:
    return FORMAT.parse(raw, lambda name: None)


def read(*items: Any, **members: Any) -> ChatRequest:
    """The request for these input items."""
    return parse(body(input=list(items), **members))


def call(id: str = "c1", name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def output(id: str = "c1", output: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": output}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def said(text: str) -> dict[str, Any]:
    """A message of the assistant as answers hold it."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def reasoning(text: str, sealed: str | None = None) -> dict[str, Any]:
    """Reasoning as Codex hands it back."""
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "content": None, "encrypted_content": sealed}
