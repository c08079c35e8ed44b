"""Renders answers in the Responses format (contract: Responses, Response), and the pieces streams are made of.

Called by the edge with what a provider adapter brought, and by the stream writer; pure.
"""

from typing import Any

from msgspec import Raw
from msgspec.json import encode

from libs.llm.canonical import SEALED, Answer, ChatRequest, FinishReason, ReasoningPart, TextPart, ToolCall, Usage
from libs.llm.identity import Identity

_PLAIN_TEXT = Raw(b'{"format":{"type":"text"}}')
_CUT_SHORT = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}


def render_answer(answer: Answer, usage: Usage, identity: Identity, request: ChatRequest) -> bytes:
    """The ``response`` object. ``usage`` is the answer's own or the caller's estimate."""
    output = _items(answer, identity, wants_sealed(request))
    if output:
        output[-1]["status"] = status_of(answer.finish_reason)
    return encode(ended(response(identity, request), output, answer.finish_reason, usage))


def response(identity: Identity, request: ChatRequest) -> dict[str, Any]:
    """The object while it is in progress: the contract's members, and those official SDKs declare as required."""
    choice = request.tool_choice
    return {
        "id": f"resp_{identity.id}",
        "object": "response",
        "created_at": identity.created,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": identity.model,
        "output": [],
        "usage": None,
        "text": request.fields.get("text", _PLAIN_TEXT),
        "tool_choice": _choice(choice.mode, choice.name) if choice else "auto",
        "tools": [],
        "parallel_tool_calls": True,
        "metadata": {},
    }


def ended(
    begun: dict[str, Any], output: list[dict[str, Any]], reason: FinishReason, usage: Usage | None
) -> dict[str, Any]:
    """The object of a whole answer."""
    cut = _CUT_SHORT.get(reason)
    return begun | {
        "status": status_of(reason),
        "incomplete_details": {"reason": cut} if cut else None,
        "output": output,
        "usage": _usage(usage) if usage else None,
    }


def status_of(reason: FinishReason) -> str:
    """The status of the response and of its last item, which is the one a limit cut short."""
    return "incomplete" if reason in _CUT_SHORT else "completed"


def wants_sealed(request: ChatRequest) -> bool:
    """Whether the client takes encrypted reasoning, to hand it back."""
    return "include" in request.fields


def sealed(signature: str) -> bool:
    """Whether a reasoning's proof is one that a client of this format can hand back."""
    return signature.startswith(SEALED)


def item_id(prefix: str, identity: Identity, index: int) -> str:
    """The id of the item at ``index`` of the output."""
    return f"{prefix}_{identity.id}_{index}"


def message_item(id: str, text: str) -> dict[str, Any]:
    """A finished message."""
    return {
        "type": "message",
        "id": id,
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def call_item(id: str, call: ToolCall) -> dict[str, Any]:
    """A finished function call."""
    return {
        "type": "function_call",
        "id": id,
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def reasoning_item(id: str, text: str, signature: str) -> dict[str, Any]:
    """Finished reasoning; ``signature`` is "" unless it is to be shown."""
    item: dict[str, Any] = {
        "type": "reasoning",
        "id": id,
        "status": "completed",
        "summary": [{"type": "summary_text", "text": text}] if text else [],
    }
    if signature:
        item["encrypted_content"] = signature
    return item


def _items(answer: Answer, identity: Identity, with_seal: bool) -> list[dict[str, Any]]:
    """One reasoning item first, then messages and calls in the model's order."""
    output: list[dict[str, Any]] = []
    reasoning = answer.reasoning()
    signature = _last_seal(answer) if with_seal else ""
    if reasoning or signature:
        output.append(reasoning_item(item_id("rs", identity, 0), reasoning, signature))
    for part in answer.parts:
        index = len(output)
        if isinstance(part, ToolCall):
            output.append(call_item(item_id("fc", identity, index), part))
        elif isinstance(part, TextPart) and part.text:
            if output and output[-1]["type"] == "message":
                output[-1]["content"][0]["text"] += part.text
            else:
                output.append(message_item(item_id("msg", identity, index), part.text))
    return output


def _last_seal(answer: Answer) -> str:
    """One item holds one proof; the last is that of the reasoning right before the answer."""
    proofs = [part.signature for part in answer.parts if isinstance(part, ReasoningPart) and sealed(part.signature)]
    return proofs[-1] if proofs else ""


def _choice(mode: str, name: str) -> str | dict[str, str]:
    return {"type": "function", "name": name} if mode == "function" else mode


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    }
