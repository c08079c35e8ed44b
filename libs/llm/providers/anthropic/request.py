"""Writes the body an Anthropic-format provider gets: from the client's own in that format, or from the hub.

Called by the adapter; pure.
"""

from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

from libs.llm.canonical import ChatRequest, FunctionTool, ToolCall, ToolChoice
from libs.llm.providers.anthropic.content import Block, text_block
from libs.llm.providers.anthropic.passthrough import passed_on
from libs.llm.providers.anthropic.schema import native_format
from libs.llm.providers.anthropic.thinking import put_thinking, thinking_is_barred
from libs.llm.providers.anthropic.turns import turns
from libs.llm.providers.base import Target
from libs.llm.system_prompt import system_prompt

_MARK = {"type": "ephemeral"}
_LONGEST_USER_ID = 256
_OBJECT = Raw(b'{"type":"object","properties":{}}')
_CHOICES = {"auto": "auto", "none": "none", "required": "any", "function": "tool"}

_decode_members = Decoder(dict[str, Raw]).decode


def provider_body(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> bytes:
    """The body as JSON. ``max_tokens`` is the limit in force."""
    if request.dialect == "anthropic_messages":
        return encode(passed_on(request, target, max_tokens, stream=stream))
    return encode(_rebuilt(request, target, max_tokens, stream=stream))


def _rebuilt(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> dict[str, Any]:
    """Everything from the hub; what has no place here is left out."""
    body: dict[str, Any] = {"model": target.model, "max_tokens": max_tokens, "stream": stream}
    system, messages = system_prompt(request), turns(request)
    if not messages:
        # Anthropic wants a turn to answer: the only text there is has to be it.
        system, messages = "", [{"role": "user", "content": [text_block(system or ".")]}]
    if system:
        body["system"] = system
    body["messages"] = messages
    if target.abilities.cache_marks:
        _mark(body)
    _put_tools(body, request)
    _put_sampling(body, request)
    if request.user and len(request.user) <= _LONGEST_USER_ID:
        body["metadata"] = {"user_id": request.user}
    adaptive = target.abilities.adaptive_thinking
    put_thinking(body, target.reasoning, max_tokens, barred=thinking_is_barred(request), adaptive=adaptive)
    wanted = native_format(request.output_format) if target.abilities.json_format else None
    if wanted is not None:
        body.setdefault("output_config", {})["format"] = wanted
    return body


def _mark(body: dict[str, Any]) -> None:
    """Mark the end of the system prompt and of the conversation for the cache (rule CACHE-001)."""
    if "system" in body:
        body["system"] = [text_block(body["system"]) | {"cache_control": _MARK}]
    blocks: list[Block] = body["messages"][-1]["content"]
    for block in reversed(blocks):
        if block["type"] not in ("thinking", "redacted_thinking"):
            block["cache_control"] = _MARK
            return


def _put_sampling(body: dict[str, Any], request: ChatRequest) -> None:
    """One of temperature (never above 1 here) and top_p, as newer models refuse both at once."""
    if request.temperature is not None:
        body["temperature"] = min(request.temperature, 1.0)
    elif request.top_p is not None:
        body["top_p"] = request.top_p
    if request.top_k is not None:
        body["top_k"] = request.top_k
    stop = [sequence for sequence in request.stop if sequence.strip()]
    if stop:
        body["stop_sequences"] = stop


def _put_tools(body: dict[str, Any], request: ChatRequest) -> None:
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice)
        return
    called = dict.fromkeys(
        part.name for message in request.messages for part in message.parts if type(part) is ToolCall
    )
    if called:
        # Earlier calls need their tools declared; the client declares none, so none may be called.
        body["tools"] = [{"name": name, "input_schema": _OBJECT} for name in called]
        body["tool_choice"] = {"type": "none"}


def _tool(tool: FunctionTool) -> dict[str, Any]:
    described = {"name": tool.name} | ({"description": tool.description} if tool.description else {})
    return described | {"input_schema": _schema(tool.parameters)}


def _schema(parameters: Raw | None) -> Raw:
    """The client's schema as it is; one without a type gets the only one Anthropic takes."""
    if parameters is None:
        return _OBJECT
    try:
        members = _decode_members(parameters)
    except DecodeError:
        return _OBJECT
    return parameters if "type" in members else Raw(encode({"type": Raw(b'"object"')} | members))


def _choice(choice: ToolChoice) -> dict[str, str]:
    named = {"name": choice.name} if choice.mode == "function" else {}
    return {"type": _CHOICES[choice.mode]} | named
