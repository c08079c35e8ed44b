"""Whatever conversation a client hands over, a provider of another format takes it, and nothing in it is lost.

The kind of faults of C005, C011 and C013: made-up conversations through parsers and request writers, whose bodies a
strict reader of the provider's rules must accept.
"""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import ChatRequest
from libs.llm.formats import anthropic_messages, openai_chat, openai_responses
from libs.llm.formats.base import ClientFormat
from libs.llm.providers.anthropic import request as to_anthropic
from libs.llm.providers.base import Abilities, Target
from libs.llm.providers.gemini import request as to_gemini
from libs.llm.providers.openai_chat import request as to_openai
from libs.llm.providers.openai_responses import request as to_responses
from libs.llm.reasoning import ReasoningControl, gate
from tests.support.strict import anthropic_takes, gemini_takes, openai_takes, responses_takes

PNG = "data:image/png;base64,AA=="
# Ids as providers of all kinds give them: not unique in a conversation, of any characters and length.
IDS = ["c1", "c2", "functions.f:0", "call_" + "x" * 60]
BLANK = ["", " ", "\n"]
Turn = dict[str, Any]


@st.composite
def stories(draw: st.DrawFn) -> list[Turn]:
    """A conversation in no format: turns with ``said`` texts, ``calls`` (ids), ``result`` (id) and ``thought``.

    Every text that is not blank is a mark that stands once in the story.
    """
    marks = count(1)

    def text(*, blanks: bool = True) -> str:
        blank = blanks and draw(st.integers(0, 4)) == 0
        return draw(st.sampled_from(BLANK)) if blank else f"<{next(marks)}>"

    told: list[Turn] = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            told.append({"role": "system", "said": [text(blanks=False)]})
        if draw(st.integers(0, 5)):
            told.append({"role": "user", "said": [text() for _ in range(draw(st.integers(1, 2)))]})
        if draw(st.booleans()):
            ids = draw(st.lists(st.sampled_from(IDS), max_size=2, unique=True))
            answer: Turn = {"role": "assistant", "said": [text()], "calls": [(id, f"<{next(marks)}>") for id in ids]}
            if draw(st.booleans()):
                answer["thought"] = draw(st.sampled_from(["", "sig", "kn1.e30"]))
            told.append(answer)
            # Some without results, some out of order, now and then one too many.
            answered = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
            answered += draw(st.sampled_from([[], [], [], ["c1"], ["never"]]))
            for id in answered:
                told.append({"role": "tool", "result": id, "said": [text()]})
                if draw(st.integers(0, 5)) == 0:
                    told.append({"role": "system", "said": [text(blanks=False)]})
    # As a rule whoever asks has the last word; without any there must still be something to send.
    if draw(st.integers(0, 3)) or not any(text.strip() for turn in told for text in turn["said"]):
        told.append({"role": "user", "said": [text(blanks=False)]})
    return told


def in_chat(told: list[Turn]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for turn in told:
        said = turn["said"]
        match turn["role"]:
            case "tool":
                messages.append({"role": "tool", "tool_call_id": turn["result"], "content": said[0]})
            case "assistant":
                calls = [
                    {"id": id, "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": mark})}}
                    for id, mark in turn["calls"]
                ]
                thought = {"reasoning_content": "thought"} if "thought" in turn else {}
                made = {"tool_calls": calls} if calls else {}
                messages.append({"role": "assistant", "content": said[0], **thought, **made})
            case "user":
                parts = [{"type": "text", "text": text} for text in said]
                picture = {"type": "image_url", "image_url": {"url": PNG}}
                messages.append({"role": "user", "content": [*parts, picture]})
            case _:
                messages.append({"role": "system", "content": said[0]})
    return {"messages": messages, "temperature": 1.5, "stop": ["\n", "END"]}


def in_messages(told: list[Turn]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for turn in told:
        said = [{"type": "text", "text": text} for text in turn["said"]]
        match turn["role"]:
            case "tool":
                result = {"type": "tool_result", "tool_use_id": turn["result"], "content": said}
                if messages and messages[-1]["content"][-1]["type"] == "tool_result":
                    messages[-1]["content"].append(result)
                else:
                    messages.append({"role": "user", "content": [result]})
            case "assistant":
                thought = [{"type": "thinking", "thinking": "thought", "signature": turn.get("thought", "")}]
                calls = [
                    {"type": "tool_use", "id": id, "name": "f", "input": {"a": mark}} for id, mark in turn["calls"]
                ]
                messages.append(
                    {"role": "assistant", "content": [*(thought if "thought" in turn else []), *said, *calls]}
                )
            case role:
                messages.append({"role": role, "content": said})
    return {"messages": messages, "stop_sequences": ["\n", "END"]}


def in_responses(told: list[Turn]) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for turn in told:
        match turn["role"]:
            case "tool":
                items.append({"type": "function_call_output", "call_id": turn["result"], "output": turn["said"][0]})
            case "assistant":
                if "thought" in turn:
                    summary = [{"type": "summary_text", "text": "thought"}]
                    items.append({"type": "reasoning", "summary": summary, "encrypted_content": turn["thought"]})
                items.append({"role": "assistant", "content": turn["said"][0]})
                items += [
                    {"type": "function_call", "call_id": id, "name": "f", "arguments": json.dumps({"a": mark})}
                    for id, mark in turn["calls"]
                ]
            case role:
                items.append({"role": role, "content": [{"type": "input_text", "text": text} for text in turn["said"]]})
    return {"input": items, "temperature": 1.5}


CLIENTS: dict[str, tuple[ClientFormat, Callable[[list[Turn]], dict[str, Any]]]] = {
    "chat": (openai_chat.FORMAT, in_chat),
    "messages": (anthropic_messages.FORMAT, in_messages),
    "responses": (openai_responses.FORMAT, in_responses),
}


def body_for(provider: str, request: ChatRequest, control: ReasoningControl) -> Any:
    abilities = Abilities(cache_marks=provider == "anthropic")
    target = Target(base_url="http://provider/v1", model="m", upstream="p/k", reasoning=control, abilities=abilities)
    match provider:
        case "anthropic":
            body = to_anthropic.provider_body(request, target, 4_096, stream=True)
        case "openai":
            body = to_openai.provider_body(request, target, "max_tokens", 4_096, stream=True)
        case "responses":
            body = to_responses.provider_body(request, target, 4_096, stream=True)
        case _:
            body = to_gemini.provider_body(request, target, 4_096)
    return json.loads(body)


# A tool, and the choices that force any call or one of it.
TOOLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "chat": (
        {"type": "function", "function": {"name": "f"}},
        {"any": "required", "f": {"type": "function", "function": {"name": "f"}}},
    ),
    "messages": (
        {"name": "f", "input_schema": {"type": "object"}},
        {"any": {"type": "any"}, "f": {"type": "tool", "name": "f"}},
    ),
    "responses": ({"type": "function", "name": "f"}, {"any": "required", "f": {"type": "function", "name": "f"}}),
}

TAKES = {
    "anthropic": anthropic_takes,
    "openai": openai_takes,
    "responses": responses_takes,
    "gemini": gemini_takes,
}


def marks_in(told: list[Turn]) -> list[str]:
    """All marks of a story."""
    said = [text for turn in told for text in turn["said"] if text.strip()]
    return said + [mark for turn in told for _, mark in turn.get("calls", [])]


@pytest.mark.rule("TOOL-007", "TOOL-016", "TOOL-020", "TOOL-045", "CHAT-031")
@pytest.mark.parametrize(
    ("client", "provider"),
    # Every pair but those of one dialect, where the client's own turns are passed on.
    [
        (client, provider)
        for client in CLIENTS
        for provider in TAKES
        if (client, provider) not in (("chat", "openai"), ("messages", "anthropic"))
    ],
)
@settings(max_examples=80, deadline=None)
@given(told=stories(), thinks=st.booleans(), declares=st.booleans(), forced=st.sampled_from([None, "any", "f"]))
def test_a_provider_of_another_format_takes_any_conversation_whole(
    client: str, provider: str, told: list[Turn], thinks: bool, declares: bool, forced: str | None
) -> None:
    format, written = CLIENTS[client]
    body = {"model": "fx", **written(told)}
    if declares:
        tool, choices = TOOLS[client]
        body["tools"] = [tool]
        if forced:
            body["tool_choice"] = choices[forced]
    request = format.parse(json.dumps(body).encode(), lambda _: None)
    control = ReasoningControl(state="on", budget=2_048) if thinks else gate(request.reasoning, True, [])
    sent = body_for(provider, request, control)
    TAKES[provider](sent)
    whole = json.dumps(sent)
    for mark in marks_in(told):
        assert whole.count(mark) == 1, f"{mark} is there {whole.count(mark)} times"
