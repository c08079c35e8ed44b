"""Reads a whole answer of an OpenAI-format provider.

Called by the adapter; pure.
"""

from typing import Any

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import Answer, AnswerPart, ReasoningPart, TextPart, ToolCall
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.providers.openai_chat.wire import (
    BROKEN_OFF,
    NULL,
    Call,
    Function,
    arguments_text,
    finish_reason,
    logprobs_of,
    new_call_id,
    usage_of,
)
from libs.llm.providers.rejections import failure_in_answer
from libs.llm.providers.replies import junk, settled_reason


class _Message(Struct):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    # Untyped: in servers without reasoning of this kind the names may hold anything.
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None
    logprobs: Raw = NULL


class _Completion(Struct):
    choices: list[_Choice] | None = None
    usage: Raw = NULL
    error: Raw = NULL


_decode = Decoder(_Completion).decode


def read_answer(body: bytes, max_tokens: int) -> Answer:
    """The answer in a 200's body; raises ``ProviderFailure`` for an error object and for anything else.

    ``max_tokens`` is the limit that was sent.
    """
    try:
        wire = _decode(body)
    except (DecodeError, RecursionError, UnicodeDecodeError):
        raise junk("body is not an answer") from None
    if wire.error != NULL:
        raise failure_in_answer(bytes(wire.error))
    if not wire.choices:
        raise junk("answer without choices")
    choice = wire.choices[0]
    if choice.finish_reason in BROKEN_OFF:
        raise ProviderFailure(FailureKind.INTERRUPTED, status=200, detail="finish reason error")
    message = choice.message
    # The older way to call: one function, without an id.
    called = message.tool_calls or ([Call(function=message.function_call)] if message.function_call else [])
    calls = [found for call in called if (found := _tool_call(call)) is not None]
    reasoning, text = message.reasoning_content or message.reasoning, _text(message)
    parts: list[AnswerPart] = []
    if reasoning and isinstance(reasoning, str):
        parts.append(ReasoningPart(reasoning))
    if text:
        parts.append(TextPart(text))
    usage, logprobs = usage_of(wire.usage), logprobs_of(choice.logprobs)
    reason = finish_reason(choice.finish_reason, called=bool(calls))
    return Answer(
        parts=[*parts, *calls],
        finish_reason=settled_reason(reason, usage, max_tokens, said=bool(text or calls)),
        usage=usage,
        logprobs=None if logprobs is None else Raw(logprobs),
    )


def _text(message: _Message) -> str | None:
    content = message.content
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content or message.refusal or content


def _tool_call(call: Call) -> ToolCall | None:
    """None for a call of a type nobody knows: tools of any type are passed on, and what they answer is no fault."""
    function, custom = call.function, call.custom
    if custom is not None and custom.name:
        return ToolCall(call.id or new_call_id(), custom.name, custom.input or "", custom=True)
    if function is None and call.type not in (None, "function"):
        return None
    if function is None or not function.name:
        raise junk("tool call without a name")
    return ToolCall(call.id or new_call_id(), function.name, arguments_text(function.arguments) or "{}")
