"""Reads a Responses body into the hub's request, or says what is wrong with it.

Called once per request by the edge; anything a client can send ends in a ``ChatRequest`` or a ``BadRequest``.
"""

from typing import Any

from msgspec import Raw, Struct

from libs.llm.canonical import ChatRequest, Message, Role, TextPart
from libs.llm.failures import BadRequest
from libs.llm.formats.body import MOST_MESSAGES, BodyDecoder
from libs.llm.formats.openai_responses.conversation import Conversation
from libs.llm.formats.openai_responses.items import read_item
from libs.llm.formats.openai_responses.options import (
    Reasoning,
    Text,
    asked_encrypted,
    cache_key,
    output_format,
    output_limit,
    reasoning_wish,
    repeated_format,
)
from libs.llm.formats.openai_responses.tools import tool_choice, tools
from libs.llm.system_prompt import SEPARATOR, json_instruction
from libs.llm.tokens import input_tokens


class _Body(Struct, gc=False):
    # Required ones have a default too: the message for a missing one is then ours. Members that are accepted and
    # ignored are not here, so that they may hold anything.
    model: str | None = None
    input: str | list[Raw] | None = None
    instructions: str | None = None
    previous_response_id: Any = None
    tools: list[Raw] | None = None
    tool_choice: Any = None
    reasoning: Reasoning | None = None
    text: Text | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stream: bool | None = None
    prompt_cache_key: Any = None


_BODY = BodyDecoder(_Body)


def parse(body: bytes) -> ChatRequest:
    """Validate ``body`` against the tables of the Responses page; raise ``BadRequest``.

    ``fields`` of the request holds only what an answer repeats or depends on (``text``, ``include``), so nothing
    a client sends can travel on unread.
    """
    wire, sent = _BODY.read(body)
    if not wire.model:
        raise BadRequest("`model` is required and must be a non-empty string", "model")
    if wire.previous_response_id is not None:
        raise BadRequest(
            "`previous_response_id` must be null: nothing is stored, send the whole conversation in `input`",
            "previous_response_id",
        )
    said = _read_input(wire.input)
    functions, tool_characters = tools(wire.tools or [])
    wanted = output_format(wire.text)
    system = SEPARATOR.join(text for text in (wire.instructions or "", *said.leading) if text)
    characters = said.characters + tool_characters + len(wire.instructions or "")
    if wanted is not None:
        characters += len(json_instruction(wanted))
    return ChatRequest(
        dialect="openai_responses",
        model=wire.model,
        messages=said.messages,
        input_tokens=input_tokens(characters, said.images),
        fields=_fields(wire.text, sent),
        system=system,
        max_tokens=output_limit(wire.max_output_tokens),
        temperature=wire.temperature,
        top_p=wire.top_p,
        stream=wire.stream is True,
        tools=functions,
        tool_choice=tool_choice(wire.tool_choice, functions),
        reasoning=reasoning_wish(wire.reasoning),
        output_format=wanted,
        cache_key=cache_key(wire.prompt_cache_key),
        images=said.images,
        remote_images=said.remote_images,
    )


def _read_input(sent: str | list[Raw] | None) -> Conversation:
    """The conversation in ``input``: a string is one user message."""
    if not sent:
        raise BadRequest("`input` is required and must be a non-empty string or array of items", "input")
    said = Conversation()
    if isinstance(sent, str):
        said.say(Message(Role.USER, [TextPart(sent)]))
        said.characters = len(sent)
        return said
    if len(sent) > MOST_MESSAGES:
        raise BadRequest(f"too many items: `input` may hold {MOST_MESSAGES:,}", "input")
    for place, raw in enumerate(sent):
        read_item(raw, f"input[{place}]", said)
    if not (said.messages or said.leading):
        raise BadRequest("`input` holds no item that can be read; send the whole conversation", "input")
    return said


def _fields(text: Text | None, sent: dict[str, Raw]) -> dict[str, Raw]:
    fields: dict[str, Raw] = {}
    if text is not None and text.format is not None:
        fields["text"] = repeated_format(sent["text"])
    include = asked_encrypted(sent["include"]) if "include" in sent else None
    if include is not None:
        fields["include"] = include
    return fields
