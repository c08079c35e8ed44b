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
from libs.llm.system_prompt import system_prompt

_LONGEST_USER = 64
"""Characters; OpenAI refuses longer ones, which coding tools send in the Messages format."""

_FAILED = "[The tool reports an error.]"
_ONLY_PICTURES = "[The result is in the pictures that follow.]"
_NO_RESULT = TextPart("[No result was given.]")
_STRAY = "[Result of an earlier call, {}:]"
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
    results = _Results(request.messages)
    for message in request.messages:
        match message.role:
            case Role.SYSTEM:
                built.append({"role": "system", "content": message.text()})
            case Role.USER:
                built.append({"role": "user", "content": _user_content(message)})
            case Role.ASSISTANT:
                built.append(_assistant(message))
                built += results.of(message)
            case Role.TOOL:
                built += results.left_in(message)
    return built


class _Called:
    """A call and what came back for it."""

    __slots__ = ("id", "results")

    def __init__(self, id: str) -> None:
        self.id = id
        self.results: list[ToolResultPart] = []

    def result(self) -> ToolResultPart:
        """One result, as OpenAI wants exactly one a call: of several all, of none one that says so."""
        parts: list[TextPart | ImagePart] = [part for result in self.results for part in result.parts]
        if not self.results:
            parts = [_NO_RESULT]
        return ToolResultPart(self.id, parts, failed=any(result.failed for result in self.results))


class _Results:
    """Hands out the results of calls: each right after the turn that called, wherever the client put it."""

    def __init__(self, messages: list[Message]) -> None:
        self._called: dict[int, list[_Called]] = {}
        self._taken: set[int] = set()
        # By id the calls of the latest turn that used it: ids may come again later.
        latest: dict[str, list[_Called]] = {}
        for message in messages:
            called = [_Called(part.id) for part in message.parts if type(part) is ToolCall]
            if called:
                self._called[id(message)] = called
                latest |= {one.id: [other for other in called if other.id == one.id] for one in called}
            for part in message.parts:
                if type(part) is ToolResultPart and (same := latest.get(part.call_id)):
                    next((one for one in same if not one.results), same[-1]).results.append(part)
                    self._taken.add(id(part))

    def of(self, message: Message) -> list[dict[str, Any]]:
        """The results of the turn's calls, and their pictures after all of them."""
        return _tool_messages([called.result() for called in self._called.get(id(message), [])])

    def left_in(self, message: Message) -> list[dict[str, Any]]:
        """Results of calls that nobody made here, which OpenAI takes as something the user says only."""
        left = [part for part in message.parts if type(part) is ToolResultPart and id(part) not in self._taken]
        said = [Message(Role.USER, [TextPart(_STRAY.format(part.call_id)), *part.parts]) for part in left]
        return [{"role": "user", "content": _user_content(one)} for one in said]


def _tool_messages(results: list[ToolResultPart]) -> list[dict[str, Any]]:
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
