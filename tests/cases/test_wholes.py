"""A whole answer says the same as its stream, in both wires and all client formats; silence and leaving on the way."""

import json
from typing import Any

import pytest

from tests.cases.caller import FORMATS, Caller, join
from tests.support import anthropic_wire
from tests.support.anthropic_wire import end, flat, start, text_block, thinking_block, tool_block, tool_use
from tests.support.background import BackgroundProvider
from tests.support.frames import KEEPALIVE
from tests.support.joined import Joined
from tests.support.provider import (
    CUT,
    DONE,
    HANG,
    RESET,
    Pause,
    Scripted,
    completion,
    delta,
    error,
    finish,
    raw,
    stream,
    usage,
)

ROLE = delta("", role="assistant")


def wholes() -> dict[str, tuple[Scripted, Scripted]]:
    """By model, an answer as a whole and as a stream: reasoning, text, a call with arguments and one without."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": f"f{n}", "arguments": given}}
        for n, given in enumerate(('{"a":"\u2028"}', "{}"))
    ]
    pieces = [delta(tool_calls=[{"index": n, **call}]) for n, call in enumerate(calls)]
    blocks = [
        {"type": "thinking", "thinking": "why", "signature": "sig"},
        anthropic_wire.text("So"),
        tool_use("c0", "f0", a="\u2028"),
        tool_use("c1", "f1"),
    ]
    return {
        "fx-oai": (
            completion("So", "tool_calls", usage=(10, 7), reasoning_content="why", tool_calls=calls),
            stream(
                ROLE, delta(reasoning_content="why"), delta("So"), *pieces, finish("tool_calls"), usage(10, 7), DONE
            ),
        ),
        "fx-ant": (
            anthropic_wire.message(*blocks, stop_reason="tool_use", usage=(10, 7)),
            anthropic_wire.events(
                start(10),
                thinking_block(0, "why", signature="sig"),
                text_block(1, "So"),
                tool_block(2, "c0", "f0", '{"a":"\u2028"}'),
                tool_block(3, "c1", "f1"),
                end("tool_use", 7),
            ),
        ),
    }


WHOLES = wholes()


@pytest.mark.rule(
    "CHAT-048", "CHAT-049", "MSG-044", "MSG-045", "RESP-047", "RESP-048", "RESP-049", "RESP-050", "STR-065"
)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", WHOLES)
def test_a_whole_answer_says_what_its_stream_says(
    caller: Caller, p1: BackgroundProvider, model: str, format: str
) -> None:
    whole, streamed = WHOLES[model]
    p1.answers(whole, streamed)
    answer = caller.ask(format, model)
    assert answer.status_code == 200
    joined = caller.joined(format, model)
    {"chat": chat_says, "messages": messages_say, "responses": responses_say}[format](answer.json(), joined)


def chat_says(body: Any, joined: Joined) -> None:
    (choice,) = body["choices"]
    message = choice["message"]
    assert (message["content"], message["reasoning"]) == (joined.text, joined.reasoning)
    assert message["reasoning_content"] == message["reasoning"]
    calls = [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
    assert [(id, name, json.loads(given)) for id, name, given in calls] == [
        (call.id, call.name, json.loads(call.arguments)) for call in joined.calls
    ]
    assert choice["finish_reason"] == joined.finish
    assert joined.usage is not None
    assert joined.usage.items() <= body["usage"].items()


def messages_say(body: Any, joined: Joined) -> None:
    assert body["content"] == joined.blocks
    assert (body["stop_reason"], body["stop_sequence"]) == (joined.finish, None)
    assert body["usage"] == joined.usage


def responses_say(body: Any, joined: Joined) -> None:
    def without_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [{name: value for name, value in item.items() if name != "id"} for item in items]
        for item in kept:
            if "arguments" in item:
                item["arguments"] = json.loads(item["arguments"])
        return kept

    assert without_ids(body["output"]) == without_ids(joined.blocks)
    assert (body["status"], body["usage"]) == (joined.finish, joined.usage)


# By the provider's reason: what each client format calls it.
REASONS = {
    ("fx-oai", "stop"): ("stop", "end_turn", "completed"),
    ("fx-oai", "length"): ("length", "max_tokens", "incomplete"),
    ("fx-oai", "content_filter"): ("content_filter", "refusal", "incomplete"),
    ("fx-ant", "end_turn"): ("stop", "end_turn", "completed"),
    ("fx-ant", "max_tokens"): ("length", "max_tokens", "incomplete"),
    ("fx-ant", "refusal"): ("content_filter", "refusal", "incomplete"),
    ("fx-ant", "stop_sequence"): ("stop", "stop_sequence", "completed"),
    ("fx-ant", "pause_turn"): ("length", "pause_turn", "incomplete"),
}


@pytest.mark.rule("CHAT-046", "CHAT-047", "MSG-046", "MSG-047", "MSG-048", "RESP-052", "RESP-053", "STR-067")
@pytest.mark.parametrize(("model", "reason"), REASONS)
def test_each_format_says_in_its_words_why_an_answer_ended(
    caller: Caller, p1: BackgroundProvider, model: str, reason: str
) -> None:
    if model == "fx-oai":
        whole = completion("So", reason)
        streamed = stream(ROLE, delta("So"), finish(reason), usage(10, 2), DONE)
    else:
        whole = anthropic_wire.message(anthropic_wire.text("So"), stop_reason=reason)
        streamed = stream(*flat(start(10), text_block(0, "So"), end(reason, 2)))
    for format, told in zip(FORMATS, REASONS[model, reason], strict=True):
        p1.answers(whole, streamed)
        body = caller.ask(format, model).json()
        said = {
            "chat": lambda body: body["choices"][0]["finish_reason"],
            "messages": lambda body: body["stop_reason"],
            "responses": lambda body: body["status"],
        }[format](body)
        assert (said, caller.joined(format, model).finish) == (told, told)


@pytest.mark.rule("ROUTE-002")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(Scripted((b'{"choices":[{"message":{"role"', CUT)), id="cut"),
        pytest.param(Scripted((b'{"choices":[{"message":{"role"', Pause(0.05), RESET)), id="reset"),
        pytest.param(completion(None, "error"), id="finish-reason-error"),
        pytest.param(raw(b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n"), id="redirect"),
        pytest.param(error(503, headers={"retry-after": "30"}), id="503-with-a-wait"),
    ],
)
def test_a_whole_answer_that_breaks_off_is_asked_of_the_next(
    caller: Caller, p1: BackgroundProvider, p2: BackgroundProvider, broken: Scripted, format: str
) -> None:
    p1.answers(broken)
    assert caller.ask(format, "fx-two").status_code == 200
    assert (len(p1.requests), len(p2.requests)) == (1, 1)


@pytest.mark.rule("STR-009")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
def test_silence_is_filled_in_every_format_whatever_comes_after(
    caller: Caller, p1: BackgroundProvider, format: str, fails: bool
) -> None:
    last = (RESET,) if fails else (ROLE, delta("late"), Pause(0.9), finish("stop"), usage(1, 1), DONE)
    p1.answers(stream(Pause(0.9), *last))
    answer = caller.ask(format, "fx-oai", stream=True)
    assert answer.text.startswith(KEEPALIVE)
    joined = join(format, answer)
    assert (joined.error is not None) == fails
    assert fails or joined.text == "late"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", ["fx-oai", "fx-ant"])
def test_a_client_that_leaves_pays_for_what_it_got(
    payer: Caller, p1: BackgroundProvider, model: str, format: str
) -> None:
    begun = [ROLE, delta("one two three")] if model == "fx-oai" else flat(start(10), text_block(0, "one two three")[:2])
    p1.answers(stream(*begun, HANG))
    payer.leave(format, model, "one two three")
    p1.wait_closed()
    (row,) = payer.log(1)
    assert 0 < row["cost_micro_idr"] < 1_000_000
    assert payer.settled() == 100_000_000_000 - row["cost_micro_idr"]
