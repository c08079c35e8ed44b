"""Puts the reasoning a model may have into the body: a thinking budget, off, or the client's own words kept.

Called by the request writers beside it (contract: Reasoning; rules RSN-010, RSN-016, RSN-019).
"""

from typing import Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder, encode

from libs.llm.canonical import NO_WISH, SEALED, ChatRequest, Effort, ReasoningPart, Role, ToolCall
from libs.llm.reasoning import SMALLEST_BUDGET, ReasoningControl, budget_of, fitting_budget

_DISABLED = Raw(b'{"type":"disabled"}')
_ADAPTIVE = Raw(b'{"type":"adaptive"}')
_NO_LEVELS = ("none", "minimal")
"""Levels of ours that Anthropic does not know."""

# What may not stand beside thinking: it samples in its own way.
_SAMPLING = ("temperature", "top_p", "top_k")

_decode_members = Decoder(dict[str, Raw]).decode


def usable(part: ReasoningPart) -> bool:
    """Whether earlier reasoning carries a proof that this provider may know."""
    return bool(part.signature) and not part.signature.startswith(SEALED)


def thinking_is_barred(request: ChatRequest) -> bool:
    """Whether Anthropic refuses this request if it thinks: what the client says itself then comes first.

    That is a forced call, an answer already begun, or calls under way whose turn shows no thinking.
    """
    choice = request.tool_choice
    if choice is not None and choice.mode in ("required", "function"):
        return True
    last = request.messages[-1] if request.messages else None
    return (last is not None and last.role is Role.ASSISTANT) or calls_lack_thinking(request)


def calls_lack_thinking(request: ChatRequest) -> bool:
    """Whether calls are under way, their results last, and the turn that made them began without usable thinking."""
    messages = request.messages
    end = len(messages)
    while end and messages[end - 1].role in (Role.USER, Role.SYSTEM):
        end -= 1
    start = end
    while start and messages[start - 1].role in (Role.ASSISTANT, Role.TOOL):
        start -= 1
    turn = messages[start:end]
    if not turn or not (turn[-1].role is Role.TOOL or any(type(part) is ToolCall for part in turn[-1].parts)):
        return False
    first = turn[0].parts[0] if turn[0].parts else None
    return not (type(first) is ReasoningPart and usable(first))


def put_thinking(
    body: dict[str, Any], control: ReasoningControl, max_tokens: int, *, barred: bool, adaptive: bool
) -> None:
    """For a body made from another dialect: the control in Anthropic's words, a level where it is ``adaptive``."""
    if max_tokens <= SMALLEST_BUDGET or control.state == "as_is":
        return
    if control.state == "off":
        body["thinking"] = _DISABLED
    elif not barred and adaptive:
        body["output_config"] = {"effort": (control.effort or Effort.MEDIUM).value}
        _adapt(body)
    elif not barred:
        _enable(body, {}, control, max_tokens)


def adjust_thinking(
    fields: dict[str, Raw],
    request: ChatRequest,
    control: ReasoningControl,
    max_tokens: int,
    *,
    lost: bool,
    adaptive: bool,
) -> None:
    """For the client's own body: its words stay unless the control or the limit in force says something else.

    ``lost``: calls are under way whose thinking had to be left out.
    """
    thinking, config = members_of(fields.get("thinking")), members_of(fields.get("output_config"))
    if max_tokens <= SMALLEST_BUDGET or (control.state == "as_is" and request.reasoning != NO_WISH):
        fields.pop("thinking", None)
        config.pop("effort", None)
    elif control.state == "off":
        said_so = _word(thinking, "type") == "disabled"
        if not said_so or _word(config, "effort") in _NO_LEVELS:
            config.pop("effort", None)
        if not said_so:
            fields["thinking"] = _DISABLED
    elif control.state == "on" and adaptive and _word(thinking, "type") == "enabled":
        config["effort"] = Raw(encode((control.effort or Effort.MEDIUM).value))
        _adapt(fields)
    elif control.state == "on":
        _keep_or_enable(fields, thinking, config, request, control, max_tokens)
    if lost and _word(members_of(fields.get("thinking")), "type") == "enabled":
        del fields["thinking"]
    put_config(fields, config)


def _keep_or_enable(
    fields: dict[str, Raw],
    thinking: dict[str, Raw],
    config: dict[str, Raw],
    request: ChatRequest,
    control: ReasoningControl,
    max_tokens: int,
) -> None:
    """Thinking is on: find out whether the client's own words say so at this level, else say it."""
    kind, effort, level = _word(thinking, "type"), _word(config, "effort"), control.effort or Effort.MEDIUM
    if effort is not None or (kind == "adaptive" and level is not Effort.MEDIUM):
        config["effort"] = Raw(encode(level.value))
    if kind == "adaptive" or (kind is None and effort is not None):
        return
    if (
        kind == "enabled"
        and control.budget is not None
        and bytes(thinking.get("budget_tokens", b"")) == b"%d" % control.budget
    ):
        if (budget := fitting_budget(control.budget, max_tokens)) != control.budget:
            fields["thinking"] = Raw(encode(thinking | {"budget_tokens": Raw(encode(budget))}))
    elif thinking_is_barred(request):
        fields.pop("thinking", None)
    else:
        _enable(fields, thinking if kind == "enabled" else {}, control, max_tokens)


def _adapt(body: dict[str, Any]) -> None:
    """Thinking whose depth the level beside it decides."""
    body["thinking"] = _ADAPTIVE
    for name in _SAMPLING:
        body.pop(name, None)


def _enable(body: dict[str, Any], others: dict[str, Raw], control: ReasoningControl, max_tokens: int) -> None:
    """A budget, from the level if none is named; ``others`` are members to keep beside it."""
    if control.budget is not None:
        budget = fitting_budget(control.budget, max_tokens)
    else:
        budget = budget_of(control.effort or Effort.MEDIUM, max_tokens)
    if budget is None:
        return
    body["thinking"] = Raw(encode(others | {"type": Raw(b'"enabled"'), "budget_tokens": Raw(b"%d" % budget)}))
    for name in _SAMPLING:
        body.pop(name, None)


def put_config(fields: dict[str, Raw], config: dict[str, Raw]) -> None:
    """Set the members of ``output_config``; as it was sent, byte for byte, when these are no others."""
    if config == members_of(fields.get("output_config")):
        return
    if config:
        fields["output_config"] = Raw(encode(config))
    else:
        fields.pop("output_config", None)


def members_of(raw: Raw | None) -> dict[str, Raw]:
    """The members of an object, none for anything else."""
    try:
        return {} if raw is None else _decode_members(raw)
    except DecodeError:
        return {}


def _word(members: dict[str, Raw], name: str) -> str | None:
    """A member's plain word, None for anything else."""
    raw = bytes(members.get(name, b""))
    return raw[1:-1].decode("utf-8", "replace") if raw[:1] == b'"' else None
