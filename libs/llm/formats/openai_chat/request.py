"""Reads a Chat completions body into the hub's request, or says what is wrong with it.

Called once per request by the edge; anything a client can send ends in a ``ChatRequest`` or a ``BadRequest``.
"""

from typing import Any, NoReturn

from msgspec import Raw
from msgspec.json import encode

from libs.llm.canonical import ChatRequest, OutputFormat
from libs.llm.failures import BadRequest
from libs.llm.formats.body import LARGEST_LIMIT, MOST_MESSAGES, BodyDecoder
from libs.llm.formats.openai_chat.messages import Conversation
from libs.llm.formats.openai_chat.rewrite import with_fitting_parts, with_one_system_message
from libs.llm.formats.openai_chat.tools import read_tool_choice, read_tools
from libs.llm.formats.openai_chat.wire import Body, Turn
from libs.llm.formats.openai_chat.wishes import read_output_format, read_reasoning
from libs.llm.system_prompt import json_instruction
from libs.llm.tokens import input_tokens

_CACHE_KEY_BYTES = 512
_OURS_ALONE = ("provider", "models", "route", "plugins")
"""Read by us, or meant for an account's own key; never sent on with our credentials."""

_BODY = BodyDecoder(Body)


def parse(body: bytes) -> ChatRequest:
    """Validate ``body`` against the request table of the Chat completions page; raise ``BadRequest``."""
    wire, fields = _BODY.read(body)
    if not wire.model:
        _refuse("`model` is required and must be a non-empty string", "model")
    if wire.n is not None and wire.n != 1:
        _refuse("`n` must be 1: one answer per request is supported", "n")
    turns = check_messages(wire.messages)
    conversation = read_messages(turns, fields)
    tools, tools_elsewhere = read_tools(wire.tools) if wire.tools else ([], [])
    tool_choice = read_tool_choice(wire.tool_choice)
    if wire.tool_choice is not None and tool_choice is None:
        del fields["tool_choice"]
    output_format = read_output_format(wire.response_format)
    for name in _OURS_ALONE:
        fields.pop(name, None)
    return ChatRequest(
        dialect="openai_chat",
        model=wire.model,
        messages=conversation.messages,
        input_tokens=estimate(conversation, wire.tools or [], output_format),
        fields=fields,
        system=conversation.system,
        max_tokens=output_limit(wire.max_tokens, wire.max_completion_tokens),
        temperature=wire.temperature,
        top_p=wire.top_p,
        stop=stop_texts(wire.stop),
        stream=wire.stream is True,
        user=wire.user,
        tools=tools,
        tools_elsewhere=tools_elsewhere,
        tool_choice=tool_choice,
        reasoning=read_reasoning(wire.reasoning, wire.reasoning_effort),
        output_format=output_format,
        cache_key=_cache_key(wire.prompt_cache_key, fields),
        images=conversation.images,
        remote_images=conversation.remote_images,
    )


def check_messages(turns: list[Turn] | None) -> list[Turn]:
    """The messages, if there are any and not too many."""
    if not turns:
        _refuse("`messages` is required and must hold at least one message", "messages")
    if len(turns) > MOST_MESSAGES:
        _refuse(f"too many messages: a request may hold {MOST_MESSAGES:,}", "messages")
    return turns


def read_messages(turns: list[Turn], fields: dict[str, Raw]) -> Conversation:
    """The turns in the hub's form; ``fields`` gets them as a provider of the same format can take them."""
    conversation = Conversation()
    for place, turn in enumerate(turns):
        conversation.add(turn, place)
    if conversation.unfit:
        fields["messages"] = with_fitting_parts(fields["messages"], turns)
    if conversation.leading > 1:
        fields["messages"] = with_one_system_message(fields["messages"], conversation.leading, conversation.system)
    return conversation


def estimate(conversation: Conversation, tools: list[Raw], output_format: OutputFormat | None) -> int:
    """The input tokens of all that goes to the model (rule R26)."""
    characters = conversation.characters + sum(len(bytes(tool)) for tool in tools)
    if output_format is not None:
        characters += len(json_instruction(output_format))
    return input_tokens(characters, conversation.images + conversation.documents)


def output_limit(limit: int | None, alias: int | None) -> int | None:
    """``max_tokens``, else ``max_completion_tokens``; None when neither is sent."""
    name = "max_completion_tokens" if limit is None else "max_tokens"
    limit = alias if limit is None else limit
    if limit is None:
        return None
    if limit < 1:
        _refuse(f"`{name}` must be at least 1", name)
    return min(limit, LARGEST_LIMIT)


def stop_texts(stop: str | list[str] | None) -> tuple[str, ...]:
    """The stop texts, empty ones left out."""
    if stop is None:
        return ()
    return tuple(text for text in ([stop] if isinstance(stop, str) else stop) if text)


def _cache_key(sent: Any, fields: dict[str, Raw]) -> str | None:
    """The usable key without blanks around it, also in ``fields``; an unusable one is ignored and taken out."""
    if sent is None:
        return None
    key = sent.strip() if isinstance(sent, str) else ""
    if key and len(key.encode()) <= _CACHE_KEY_BYTES:
        fields["prompt_cache_key"] = Raw(encode(key))
        return key
    del fields["prompt_cache_key"]
    return None


def _refuse(message: str, field: str) -> NoReturn:
    raise BadRequest(message, field)
