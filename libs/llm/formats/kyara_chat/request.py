"""Reads a body of the strict dialect into the hub's request, or names the member at fault.

Called once per request by the edge; anything a client can send ends in a ``ChatRequest`` or a ``BadRequest``.
"""

import re
from typing import NoReturn

from libs.llm.canonical import ChatRequest, ReasoningWish
from libs.llm.failures import BadRequest, NotJson
from libs.llm.formats.body import BodyDecoder
from libs.llm.formats.kyara_chat.wire import Body, Reasoning, Turn
from libs.llm.formats.openai_chat import wire as chat
from libs.llm.formats.openai_chat.request import check_messages, estimate, output_limit, read_messages, stop_texts
from libs.llm.formats.openai_chat.wishes import read_reasoning

DEFAULT_MAX_TOKENS = 8_192
_LONGEST_MESSAGE = 300  # they quote names of the client's own

_ROLES = frozenset({"system", "developer", "user", "assistant"})
_ASSISTANTS_ALONE = ("reasoning", "reasoning_content", "reasoning_details")
_INDEX = re.compile(r"\[(\d+)\]")
# How the decoder names a member that is missing or does not belong.
_MEMBER = re.compile(r"Object (?:contains unknown|missing required) field `([^`]*)`")

_BODY = BodyDecoder(Body)


def parse(body: bytes) -> ChatRequest:
    """Validate ``body``; raise ``BadRequest`` with ``invalid_json``, or without a code and with the member's path."""
    try:
        return _read(body)
    except NotJson as error:
        raise BadRequest(error.message, code="invalid_json") from None
    except BadRequest as error:
        param = _param(error)
        raise BadRequest(error.message[:_LONGEST_MESSAGE], param, code="", param=param) from None


def _read(body: bytes) -> ChatRequest:
    wire, fields = _BODY.read(body)
    if not wire.model:
        _refuse("`model` must be a non-empty string", "model")
    if wire.n is not None and wire.n != 1:
        _refuse("`n` must be 1: one answer per request is supported", "n")
    if wire.top_logprobs is not None and wire.logprobs is not True:
        _refuse("`top_logprobs` needs `logprobs` to be true", "top_logprobs")
    turns = check_messages([_turn(turn, f"messages[{place}]") for place, turn in enumerate(wire.messages)])
    conversation = read_messages(turns, fields)
    fields.pop("session_id", None)  # never part of what the model sees
    limit = output_limit(wire.max_tokens, wire.max_completion_tokens)
    return ChatRequest(
        dialect="openai_chat",
        model=wire.model,
        messages=conversation.messages,
        input_tokens=estimate(conversation, [], None),
        fields=fields,
        system=conversation.system,
        max_tokens=DEFAULT_MAX_TOKENS if limit is None else limit,
        temperature=wire.temperature,
        top_p=wire.top_p,
        top_k=wire.top_k,
        stop=stop_texts(wire.stop),
        stream=wire.stream is True,
        user=wire.user,
        reasoning=_reasoning(wire.reasoning, wire.reasoning_effort),
        cache_key=wire.session_id or None,
    )


def _turn(turn: Turn, path: str) -> chat.Turn:
    if turn.role not in _ROLES:
        _refuse(f"`{path}.role` must be system, developer, user or assistant", f"{path}.role")
    if turn.role != "assistant":
        for name in _ASSISTANTS_ALONE:
            if getattr(turn, name) is not None:
                _refuse(f"`{path}.{name}` belongs to assistant messages alone", f"{path}.{name}")
    return chat.Turn(
        role=turn.role, content=turn.content, reasoning_content=turn.reasoning_content, reasoning=turn.reasoning
    )


def _reasoning(reasoning: Reasoning | None, effort: str | None) -> ReasoningWish:
    """The object's wish; ``effort``, the member outside it, counts where the object names none."""
    wish = read_reasoning(None, effort)
    if reasoning is None:
        return wish
    asked = chat.ReasoningObject(
        effort=effort if reasoning.effort is None else reasoning.effort,
        enabled=reasoning.enabled,
        max_tokens=reasoning.max_tokens,
        exclude=reasoning.exclude,
    )
    return read_reasoning(asked, None)


def _param(error: BadRequest) -> str | None:
    """The path of the member at fault in this dialect's form, ``messages.0.foo``."""
    path = [error.field] if error.field else []
    member = _MEMBER.search(error.message)
    if member is not None:
        path.append(member[1])
    return _INDEX.sub(r".\1", ".".join(path))[:_LONGEST_MESSAGE] or None


def _refuse(message: str, field: str) -> NoReturn:
    raise BadRequest(message, field)
