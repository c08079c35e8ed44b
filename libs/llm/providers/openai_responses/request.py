"""Writes the body a Responses provider gets.

Called by the adapter; pure. Always built from the hub: members nobody interprets have no way through (RESP-033).
"""

from typing import Any

from msgspec.json import encode

from libs.llm.canonical import ChatRequest, OutputFormat, ReasoningPart, Role, ToolChoice
from libs.llm.providers.base import Target
from libs.llm.providers.openai_responses.items import Item, input_items, message_item
from libs.llm.providers.sealed import unseal
from libs.llm.reasoning import ReasoningControl
from libs.llm.system_prompt import json_instruction, system_prompt

_SMALLEST_LIMIT = 16
"""The service refuses an output limit below this."""
_LONGEST_USER = 64
_NOTHING = "."
_ENCRYPTED = ["reasoning.encrypted_content"]
_NO_PARAMETERS = {"type": "object", "properties": {}}


def provider_body(request: ChatRequest, target: Target, max_tokens: int, *, stream: bool) -> bytes:
    """The JSON body for ``target``; what Responses has no place for (stop sequences, top_k) is left out."""
    body: dict[str, Any] = {
        "model": target.model,
        "store": False,
        "stream": stream,
        "max_output_tokens": max(_SMALLEST_LIMIT, max_tokens),
    }
    _put_conversation(body, request, target)
    _put_tools(body, request)
    _put_reasoning(body, request, target)
    chosen = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "prompt_cache_key": request.cache_key,
        "safety_identifier": request.user if request.user and len(request.user) <= _LONGEST_USER else None,
    }
    body |= {name: value for name, value in chosen.items() if value is not None}
    return encode(body)


def _put_conversation(body: dict[str, Any], request: ChatRequest, target: Target) -> None:
    items = input_items(request.messages, target.upstream)
    instructions = system_prompt(request)
    wanted = request.output_format
    if wanted is not None and target.abilities.json_format:
        body["text"] = {"format": _format(wanted)}
        if wanted.schema is None:
            # This mode is refused unless the word JSON stands in the input itself.
            instructions = request.system
            items.insert(0, message_item(Role.SYSTEM, [{"type": "input_text", "text": json_instruction(wanted)}]))
    if not items:
        # Nothing to answer is refused: the only text there is has to be it.
        items, instructions = (
            [message_item(Role.SYSTEM, [{"type": "input_text", "text": instructions or _NOTHING}])],
            "",
        )
    if instructions:
        body["instructions"] = instructions
    body["input"] = items


def _format(wanted: OutputFormat) -> Item:
    if wanted.schema is None:
        return {"type": "json_object"}
    format: Item = {"type": "json_schema", "name": wanted.name or "answer", "schema": wanted.schema}
    if wanted.strict is not None:
        format["strict"] = wanted.strict
    return format


def _put_tools(body: dict[str, Any], request: ChatRequest) -> None:
    if not request.tools:
        return
    tools: list[Item] = []
    for tool in request.tools:
        # Without a word from us the service takes every schema for a strict one.
        entry: Item = {"type": "function", "name": tool.name, "strict": bool(tool.strict)}
        if tool.description is not None:
            entry["description"] = tool.description
        entry["parameters"] = _NO_PARAMETERS if tool.parameters is None else tool.parameters
        tools.append(entry)
    body["tools"] = tools
    if request.tool_choice is not None:
        body["tool_choice"] = _choice(request.tool_choice)


def _choice(choice: ToolChoice) -> str | Item:
    return {"type": "function", "name": choice.name} if choice.mode == "function" else choice.mode


def _put_reasoning(body: dict[str, Any], request: ChatRequest, target: Target) -> None:
    """Encrypted reasoning is asked for only where reasoning is certain: models without any refuse the wish."""
    told = _reasoning(target.reasoning)
    if told is not None:
        body["reasoning"] = told
    if target.reasoning.state == "on" or _has_own_reasoning(request, target.upstream):
        body["include"] = _ENCRYPTED


def _reasoning(control: ReasoningControl) -> Item | None:
    if control.state == "on" and control.effort is not None:
        return {"effort": control.effort.value, "summary": "auto"}
    if control.state == "off" and not control.off_softly:
        return {"effort": "none"}
    return None


def _has_own_reasoning(request: ChatRequest, upstream: str) -> bool:
    return any(
        isinstance(part, ReasoningPart) and unseal(part.signature, upstream) is not None
        for message in request.messages
        for part in message.parts
    )
