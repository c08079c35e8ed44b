"""Reads a Messages body into the hub's request, or says what is wrong with it.

Called once per request by the edge; anything a client can send ends in a result or a ``BadRequest``.
"""

from msgspec import Raw, Struct
from msgspec.json import encode

from libs.llm.canonical import ChatRequest, FunctionTool, OutputFormat
from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages.conversation import Conversation, read_conversation
from libs.llm.formats.anthropic_messages.passing import without_ignored_system_blocks, without_ignored_turn_blocks
from libs.llm.formats.anthropic_messages.settings import (
    check_budget,
    read_betas,
    read_format,
    read_reasoning,
    read_user,
)
from libs.llm.formats.anthropic_messages.tools import read_choice, read_tools
from libs.llm.formats.anthropic_messages.wire import Body
from libs.llm.formats.base import Header
from libs.llm.formats.body import LARGEST_LIMIT, MOST_MESSAGES, BodyDecoder
from libs.llm.reasoning import split_level
from libs.llm.system_prompt import json_instruction
from libs.llm.tokens import input_tokens

_OURS_ALONE = ("provider", "models", "route", "plugins")
"""Meant for an account's own key or for other endpoints; never sent on with our credentials."""

_BODY = BodyDecoder(Body)


class _Reading(Struct):
    """A body that is in order as far as its prompt goes."""

    wire: Body
    fields: dict[str, Raw]
    model: str
    talk: Conversation
    tools: list[FunctionTool]
    tools_elsewhere: list[Raw]
    output_format: OutputFormat | None
    input_tokens: int


def parse(body: bytes, header: Header) -> ChatRequest:
    """Validate ``body`` against the request table of the Messages page; raise ``BadRequest``."""
    try:
        read = _read(body)
        _settle_fields(read)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    wire, tally = read.wire, read.talk.tally
    reasoning = read_reasoning(wire.thinking, wire.output_config)
    if split_level(read.model)[1] is None:
        # A level in the model's id stands for all that is said about thinking.
        check_budget(reasoning.budget, wire.max_tokens)
    return ChatRequest(
        dialect="anthropic_messages",
        model=read.model,
        messages=read.talk.messages,
        input_tokens=read.input_tokens,
        fields=read.fields,
        system=read.talk.system,
        max_tokens=_output_limit(wire.max_tokens),
        temperature=wire.temperature,
        top_p=wire.top_p,
        top_k=wire.top_k,
        stop=tuple(text for text in wire.stop_sequences or () if text),
        stream=wire.stream is True,
        user=read_user(wire.metadata),
        tools=read.tools,
        tools_elsewhere=read.tools_elsewhere,
        tool_choice=read_choice(wire.tool_choice),
        reasoning=reasoning,
        output_format=read.output_format,
        betas=read_betas(header),
        images=tally.images,
        remote_images=tally.remote_images,
    )


def count_tokens(body: bytes) -> bytes:
    """The answer of ``/v1/messages/count_tokens``: the estimate a request of this body is held for (rule R26).

    Only the prompt is looked at, so nothing is refused for its limits; raises ``BadRequest`` for the rest.
    """
    try:
        return encode({"input_tokens": _read(body).input_tokens})
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def _read(body: bytes) -> _Reading:
    wire, fields = _BODY.read(body)
    if not wire.model:
        raise BadRequest("`model` is required and must be a non-empty string", "model")
    if not wire.messages:
        raise BadRequest("`messages` is required and must hold at least one message", "messages")
    if len(wire.messages) > MOST_MESSAGES:
        raise BadRequest(f"too many messages: a request may hold {MOST_MESSAGES:,}", "messages")
    talk = read_conversation(wire.system, wire.messages)
    tools, elsewhere = read_tools(wire.tools, fields["tools"]) if wire.tools else ([], [])
    output_format = read_format(wire.output_config, wire.output_format)
    characters = talk.tally.characters
    if wire.tools:
        characters += len(memoryview(fields["tools"]))
    if output_format is not None:
        characters += len(json_instruction(output_format))
    # Until it is read, a document is taken for one page.
    tokens = input_tokens(characters, talk.tally.images + talk.tally.documents)
    return _Reading(wire, fields, wire.model, talk, tools, elsewhere, output_format, tokens)


def _settle_fields(read: _Reading) -> None:
    """Take out of the raw members what no provider may see."""
    fields, talk = read.fields, read.talk
    for name in _OURS_ALONE:
        fields.pop(name, None)
    if talk.cut_system and isinstance(read.wire.system, list):
        fields["system"] = without_ignored_system_blocks(fields["system"], read.wire.system)
    if talk.cut_turns and read.wire.messages is not None:
        fields["messages"] = without_ignored_turn_blocks(fields["messages"], read.wire.messages, talk.cut_turns)


def _output_limit(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise BadRequest("`max_tokens` must be at least 1", "max_tokens")
    return None if limit is None else min(limit, LARGEST_LIMIT)
