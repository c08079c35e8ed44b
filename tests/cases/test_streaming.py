"""What reaches the client of a provider's stream, whole, broken or junk: cases C023, C025, C027, C029, C031, C035."""

import json
from typing import Any

import pytest

from tests.cases.caller import FORMATS, RUPIAH_100_000, Caller, join
from tests.support.anthropic_wire import end, events, flat, start, text_block
from tests.support.background import BackgroundProvider
from tests.support.frames import frames
from tests.support.joined import join_chat
from tests.support.provider import (
    CUT,
    DONE,
    RESET,
    Pause,
    Scripted,
    Step,
    comment,
    delta,
    event,
    finish,
    json_answer,
    stream,
    usage,
)

ROLE = delta("", role="assistant")
COUNTED = {"prompt_tokens": 14, "completion_tokens": 6, "total_tokens": 20}
MESSAGES_TOOL = {"name": "ping", "input_schema": {"type": "object"}}


@pytest.mark.rule("STR-003", "STR-019", "STR-028", "STR-029", "STR-031", "STR-032", "STR-033")
@pytest.mark.parametrize(
    ("end", "options"),
    [
        ((finish("stop"), usage(14, 6)), None),
        ((finish("stop"), usage(14, 6)), {"include_usage": False}),
        ((finish("stop", usage=(14, 6)), usage(14, 6)), None),
    ],
    ids=["apart", "apart-and-unwanted", "twice"],
)
def test_c023_usage_comes_once_with_the_finish_reason(
    payer: Caller, p1: BackgroundProvider, end: tuple[bytes, ...], options: dict[str, bool] | None
) -> None:
    p1.answers(stream(ROLE, delta("1"), *end, DONE))
    answer = payer.chat(stream=True, stream_options=options)
    joined = join("chat", answer)
    assert (joined.text, joined.finish, joined.usage) == ("1", "stop", COUNTED)
    assert joined.id == answer.headers["x-request-id"]
    assert p1.requests[0].json["stream_options"]["include_usage"] is True
    assert len(payer.log(1)) == 1


@pytest.mark.rule("STR-028")
def test_c023_an_answer_without_usage_still_ends_well_and_is_noted(payer: Caller, p1: BackgroundProvider) -> None:
    p1.answers(stream(ROLE, delta("1"), finish("stop"), DONE))
    assert payer.joined("chat", "fx-oai").finish == "stop"
    assert payer.log(1)[0]["cost_micro_idr"] > 0


# Cut off in the framing of HTTP, ended in it without the last event, torn.
ENDS: dict[str, tuple[Step, ...]] = {"cut": (CUT,), "ended": (), "reset": (Pause(0.05), RESET)}


@pytest.mark.rule("STR-013", "STR-036", "STR-051", "STR-053", "STR-068", "STR-069", "ERR-020", "ERR-021", "ERR-022")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", ["fx-oai", "fx-ant"])
@pytest.mark.parametrize("end", ENDS)
def test_c025_an_answer_that_breaks_off_is_no_complete_one(
    payer: Caller, p1: BackgroundProvider, format: str, model: str, end: str
) -> None:
    """The joiners allow no finish reason, message_stop or response.completed beside the error."""
    said = "The answer is "
    begun = [ROLE, delta(said)] if model == "fx-oai" else flat(start(10), text_block(0, said)[:2])
    p1.answers(stream(*begun, *ENDS[end]))
    joined = payer.joined(format, model)
    assert joined.error is not None
    if format == "messages":
        assert joined.error["type"] == "api_error"
    else:
        assert joined.error["code"] == "stream_interrupted"
    if format == "chat":
        assert (joined.error["type"], joined.error["param"]) == ("upstream_error", None)
    assert joined.text in (said, "")
    assert payer.settled() == RUPIAH_100_000
    assert len(payer.log(1)) == 1


@pytest.mark.rule("STR-008", "STR-076")
def test_c027_lines_may_end_in_crlf_and_chunks_anywhere(caller: Caller, p1: BackgroundProvider) -> None:
    pieces = (
        b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\r\n\r',
        b'\ndata:{"choices":[{"index":0,"delta":{"content":"A"}}]}\r\n\r\nda',
        b'ta: {"choices":[{"index":0,\r\ndata: "delta":{"content":"B"}}]}\r\n\r\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\r\n\r\n',
        b"data:[DONE]\r\n\r\n",
    )
    # Apart in time too, so that no buffer on the way puts them together.
    p1.answers(stream(*(step for piece in pieces for step in (piece, Pause(0.02)))))
    joined = caller.joined("chat", "fx-oai")
    assert (joined.text, joined.finish) == ("AB", "stop")
    assert joined.usage is not None
    assert joined.usage["completion_tokens"] == 2


@pytest.mark.rule("STR-008", "STR-009", "STR-045")
@pytest.mark.parametrize("format", FORMATS)
def test_c029_comments_and_pings_of_a_provider_stay_with_us(
    caller: Caller, p1: BackgroundProvider, format: str
) -> None:
    """The joiners allow no other comment than our own, and data that is JSON only."""
    p1.answers(
        stream(
            comment("VENDOR PROCESSING"),
            comment(),
            ROLE,
            b"data: \n\n",
            b":x-vendor-cost=1\n",
            delta("ok"),
            event({}, "ping"),
            finish("stop"),
            usage(5, 1),
            DONE,
        )
    )
    answer = caller.ask(format, "fx-oai", stream=True)
    assert join(format, answer).text == "ok"
    assert "VENDOR" not in answer.text
    assert "x-vendor-cost" not in answer.text
    assert all(json.loads(frame.data) for frame in frames(answer.content) if frame.data != "[DONE]")


@pytest.mark.rule("STR-008", "STR-009", "STR-045")
@pytest.mark.parametrize("format", FORMATS)
def test_c029_what_anthropic_servers_put_between_events_stays_with_us(
    caller: Caller, p1: BackgroundProvider, format: str
) -> None:
    told = [
        comment("VENDOR PROCESSING"),
        event({"type": "ping"}, "ping"),
        start(10),
        b"event: ping\ndata: \n\n",
        b"event: ping\ndata: VENDOR\n\n",
        event({"type": "vendor_event", "index": "x", "delta": 7}, "vendor_event"),
        *text_block(0, "ok")[:2],
        b": x-vendor-cost=1\n",
        event({"type": "content_block_delta", "index": 0, "delta": {"type": "vendor_delta", "x": [1]}}),
        text_block(0, "ok")[2],
        *end("end_turn", 1),
        DONE,
    ]
    p1.answers(stream(*told))
    answer = caller.ask(format, "fx-ant", stream=True)
    assert join(format, answer).text == "ok"
    assert "vendor" not in answer.text.lower()


def _refusals() -> dict[str, tuple[bool, Scripted]]:
    said = {"message": "vendor overloaded", "code": 503}
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "vendor overloaded"}}
    return {
        "openai-event": (True, stream(comment("wait"), event({"error": said}), DONE)),
        "openai-body": (False, json_answer({"error": said})),
        "openai-body-for-a-stream": (True, json_answer({"error": said})),
        "openai-nothing": (True, stream(CUT)),
        "openai-only-done": (True, stream(DONE)),
        "anthropic-event": (True, events(start(10), event(overloaded, "error"))),
        "anthropic-body": (False, json_answer(overloaded)),
        "anthropic-nothing": (True, stream(CUT)),
        "anthropic-only-start": (True, events(start(10))),
    }


REFUSALS = _refusals()


@pytest.mark.rule("STR-011", "ERR-075", "ERR-016", "ERR-061")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_c031_a_refusal_inside_a_200_is_a_503(payer: Caller, p1: BackgroundProvider, format: str, refusal: str) -> None:
    streamed, answer = REFUSALS[refusal]
    p1.answers(answer)
    model = "fx-oai" if refusal.startswith("openai") else "fx-ant"
    refused = payer.ask(format, model, stream=streamed)
    assert refused.status_code == 503, refused.text
    assert refused.headers["content-type"].startswith("application/json")
    body = refused.json()
    if format == "messages":
        assert (body["type"], body["error"]["type"]) == ("error", "api_error")
    else:
        assert set(body) == {"error"}
        assert body["error"]["code"] in ("upstream_error", "all_providers_failed")
    assert "vendor" not in refused.text
    assert payer.settled() == RUPIAH_100_000


def _call(arguments: str) -> dict[str, Any]:
    return {"index": 0, "id": "c1", "type": "function", "function": {"name": "ping", "arguments": arguments}}


@pytest.mark.rule("STR-005", "STR-039", "STR-040", "STR-042", "STR-044", "STR-049", "STR-050")
def test_c035_a_message_that_begins_with_a_call_starts_first(caller: Caller, p1: BackgroundProvider) -> None:
    later = {"index": 0, "function": {"arguments": "{}"}}
    calls = [delta(tool_calls=[piece]) for piece in (_call(""), later)]
    p1.answers(stream(*calls, finish("tool_calls"), usage(7, 3), DONE))
    joined = caller.joined("messages", "fx-oai", tools=[MESSAGES_TOOL])
    assert joined.frames[0].event == "message_start"
    assert joined.model == "fx-oai"
    (block,) = joined.blocks
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "ping", {})
    assert joined.finish == "tool_use"


@pytest.mark.rule("STR-041", "STR-046", "STR-047")
def test_c035_reasoning_text_and_a_call_are_blocks_in_this_order(caller: Caller, p1: BackgroundProvider) -> None:
    """The joiner demands one signature_delta in a thinking block, and that a block closes before the next opens."""
    told = (ROLE, delta(reasoning_content="why"), delta("So"), delta(tool_calls=[_call("{}")]))
    p1.answers(stream(*told, finish("tool_calls"), usage(7, 9), DONE))
    joined = caller.joined("messages", "fx-oai", tools=[MESSAGES_TOOL])
    assert [block["type"] for block in joined.blocks] == ["thinking", "text", "tool_use"]
    assert (joined.reasoning, joined.text, joined.calls[0].arguments) == ("why", "So", "{}")


def test_nothing_but_our_own_comment_opens_a_stream(caller: Caller, p1: BackgroundProvider) -> None:
    """A provider that only keeps the connection open has not begun to answer."""
    p1.answers(stream(comment("VENDOR"), Pause(0.3), comment("VENDOR"), ROLE, delta("ok"), finish(), usage(1, 1), DONE))
    answer = caller.chat(stream=True)
    assert join_chat(answer.content).text == "ok"
    assert "VENDOR" not in answer.text


def _rejections() -> dict[str, tuple[str, list[bytes]]]:
    refused = {"error": {"message": "vendor text", "type": "x", "code": "content_policy_violation"}}
    length = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: vendor"}}
    return {
        "fx-oai": ("content_policy_violation", [ROLE, delta("So"), event(refused)]),
        "fx-ant": ("context_length_exceeded", [*flat(start(10), text_block(0, "So")), event(length, "error")]),
    }


REJECTIONS = _rejections()


@pytest.mark.rule("ERR-023", "STR-052", "STR-068")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", REJECTIONS)
def test_a_rejection_in_the_middle_of_a_stream_keeps_its_code(
    payer: Caller, p1: BackgroundProvider, model: str, format: str
) -> None:
    code, told = REJECTIONS[model]
    # Apart in time, so that the text is out before the rejection is seen.
    p1.answers(stream(*told[:-1], Pause(0.1), told[-1]))
    answer = payer.ask(format, model, stream=True)
    joined = join(format, answer)
    assert joined.error is not None
    if format == "messages":
        assert joined.error["type"] == "invalid_request_error"
    else:
        assert joined.error["code"] == code
    if format == "chat":
        assert joined.error["type"] == "upstream_error"
    assert "vendor" not in answer.text
    assert payer.settled() == RUPIAH_100_000
