"""Builds the members of an OpenAI-format body out of the hub, for clients of other formats.

Called by ``request``; what the format has no place for is left out without an error.
"""

from typing import Any

from msgspec import Raw
from msgspec.json import encode

from libs.llm.canonical import (
    ChatRequest,
    DocumentPart,
    FunctionTool,
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from libs.llm.providers.pairing import paired
from libs.llm.system_prompt import system_prompt

_LONGEST_USER = 64
"""Characters; OpenAI refuses longer ones, which coding tools send in the Messages format."""

_FAILED = "[The tool reports an error.]"
_ONLY_PICTURES = "[The result is in the pictures that follow.]"
_NO_NAME = "document"


def built_fields(request: ChatRequest) -> dict[str, Raw]:
    """The members that come from the client: messages, tools, sampling; each as JSON."""
    members: dict[str, Any] = {"messages": _messages(request)}
    if request.tools:
        members["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None:
            members["tool_choice"] = _tool_choice(request.tool_choice)
    for name in ("temperature", "top_p"):
        value = getattr(request, name)
        if value is not None:
            members[name] = value
    if request.stop:
        members["stop"] = request.stop
    if request.user and len(request.user) <= _LONGEST_USER:
        members["user"] = request.user
    if request.cache_key and request.dialect == "openai_responses":
        members["prompt_cache_key"] = request.cache_key
    return {name: Raw(encode(value)) for name, value in members.items()}


def _messages(request: ChatRequest) -> list[dict[str, Any]]:
    system = system_prompt(request)
    built: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    results: list[ToolResultPart] = []
    for message in paired(request.messages):
        if message.role is Role.TOOL:
            results += [part for part in message.parts if type(part) is ToolResultPart]
            continue
        built += _tool_messages(results)
        results.clear()
        match message.role:
            case Role.SYSTEM:
                built.append({"role": "system", "content": message.text()})
            case Role.USER:
                built.append({"role": "user", "content": _user_content(message)})
            case _:
                built.append(_assistant(message))
    return built + _tool_messages(results)


def _tool_messages(results: list[ToolResultPart]) -> list[dict[str, Any]]:
    """The results of one turn's calls, and their pictures after all of them."""
    messages: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    for result in results:
        shown = [_image(part) for part in result.parts if type(part) is ImagePart]
        text = result.text() or (_ONLY_PICTURES if shown else "")
        if result.failed:
            text = f"{_FAILED}\n{text}" if text else _FAILED
        messages.append({"role": "tool", "tool_call_id": result.call_id, "content": text})
        if shown:
            pictures += [{"type": "text", "text": f"[Result of the call {result.call_id}:]"}, *shown]
    if pictures:
        messages.append({"role": "user", "content": pictures})
    return messages


def _user_content(message: Message) -> str | list[dict[str, Any]]:
    """A string where one text is all, else parts in their order; documents at an address have no place here."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if type(part) is TextPart:
            parts.append({"type": "text", "text": part.text})
        elif type(part) is ImagePart:
            parts.append(_image(part))
        elif type(part) is DocumentPart and part.data:
            file = {"filename": part.name or _NO_NAME, "file_data": f"data:{part.media_type};base64,{part.data}"}
            parts.append({"type": "file", "file": file})
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or ""


def _image(part: ImagePart) -> dict[str, Any]:
    image = {"url": part.url or f"data:{part.media_type};base64,{part.data}"}
    if part.detail is not None:
        image["detail"] = part.detail
    return {"type": "image_url", "image_url": image}


def _assistant(message: Message) -> dict[str, Any]:
    text = message.text()
    reasoning = "".join(part.text for part in message.parts if type(part) is ReasoningPart)
    calls = [
        {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": part.arguments}}
        for part in message.parts
        if type(part) is ToolCall
    ]
    turn: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if reasoning:
        turn["reasoning_content"] = reasoning
    if calls:
        turn["tool_calls"] = calls
    return turn


def _tool(tool: FunctionTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    for name in ("description", "parameters", "strict"):
        value = getattr(tool, name)
        if value is not None:
            function[name] = value
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.mode != "function":
        return choice.mode
    return {"type": "function", "function": {"name": choice.name}}
