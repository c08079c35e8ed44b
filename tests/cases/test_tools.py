"""Function calls that cross from one format to another: cases C001, C003, C005, C009, C013 and C021."""

from typing import Any

import pytest

from tests.cases.caller import FORMATS, Caller, function, user
from tests.support.anthropic_wire import blocks_of, end, events, message, start, text_block, tool_block, tool_use
from tests.support.background import BackgroundProvider
from tests.support.frames import frames
from tests.support.provider import DONE, delta, event, finish, stream, usage

MESSAGES_TOOL = {"name": "ping", "input_schema": {"type": "object"}}
CALLED = {"id": "c1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}


def openings(answer: Any) -> list[dict[str, Any]]:
    """The chunks of a Chat stream that open a call."""
    deltas = [
        frame.json["choices"][0]["delta"] for frame in frames(answer.content) if '"finish_reason":null' in frame.data
    ]
    return [piece for delta in deltas for piece in delta.get("tool_calls", []) if "id" in piece]


@pytest.mark.rule("STR-024", "STR-025", "STR-026", "STR-027", "STR-028", "TOOL-032")
def test_c001_two_calls_in_one_stream_are_told_apart(caller: Caller, p1: BackgroundProvider) -> None:
    # An opening event with nothing but the usage, as some servers send it.
    bare = {"type": "message_start", "message": {"usage": {"input_tokens": 20, "output_tokens": 1}}}
    p1.answers(
        events(
            event(bare, "message_start"),
            text_block(0, "Checking."),
            tool_block(1, "toolu_1", "get_weather", '{"city":"Jak', 'arta"}'),
            tool_block(2, "toolu_2", "get_time", '{"tz":"WIB"}'),
            end("tool_use", 40),
        )
    )
    joined = caller.joined("chat", "fx-ant", tools=[function("get_weather"), function("get_time")])
    assert joined.text == "Checking."
    assert [(call.name, call.arguments) for call in joined.calls] == [
        ("get_weather", '{"city":"Jakarta"}'),
        ("get_time", '{"tz":"WIB"}'),
    ]
    assert len({call.id for call in joined.calls}) == 2
    assert joined.finish == "tool_calls"
    assert joined.usage == {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60}


@pytest.mark.rule("STR-024", "STR-025")
def test_c003_a_call_without_arguments_streams_an_empty_object(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(
        events(
            start(8),
            tool_block(0, "toolu_1", "ping"),
            tool_block(1, "toolu_2", "find", "", '{"q":"a"}'),
            end("tool_use", 9),
        )
    )
    answer = caller.chat("fx-ant", stream=True, tools=[function("ping"), function("find")])
    assert [opening["function"]["arguments"] for opening in openings(answer)] == ["", ""]
    joined = caller.joined("chat", "fx-ant", tools=[function("ping"), function("find")])
    assert [call.arguments for call in joined.calls] == ["{}", '{"q":"a"}']


@pytest.mark.rule("TOOL-005", "TOOL-006", "CHAT-048")
def test_c003_a_whole_call_without_arguments_is_an_empty_object(caller: Caller, p1: BackgroundProvider) -> None:
    p1.answers(message(tool_use("toolu_3", "ping"), stop_reason="tool_use", usage=(8, 5)))
    choice = caller.chat("fx-ant", tools=[function("ping")]).json()["choices"][0]
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "ping", "arguments": "{}"}
    assert choice["message"]["content"] is None
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.rule("TOOL-007", "TOOL-010", "TOOL-034", "CHAT-033", "CHAT-035")
def test_c005_results_of_one_turn_reach_anthropic_in_one_message(caller: Caller, p1: BackgroundProvider) -> None:
    calls = [{**CALLED, "id": f"call_{name}", "function": {"name": f"get_{name}", "arguments": "{}"}} for name in "ab"]
    answer = caller.chat(
        "fx-ant",
        tools=[function("get_a"), function("get_b")],
        messages=[
            user("Both please"),
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_b", "content": "B"},
            {"role": "tool", "tool_call_id": "call_a", "content": "A"},
            user("And now?"),
        ],
    )
    assert answer.status_code == 200
    sent = p1.requests[0].json["messages"]
    assert [turn["role"] for turn in sent] == ["user", "assistant", "user"]
    uses = {block["name"]: block["id"] for block in sent[1]["content"]}
    assert set(uses) == {"get_a", "get_b"}
    first, second, *rest = sent[2]["content"]
    assert {first["type"], second["type"]} == {"tool_result"}
    results = {block["tool_use_id"]: text_of(block) for block in (first, second)}
    assert results == {uses["get_a"]: "A", uses["get_b"]: "B"}
    assert [block["text"] for block in rest] == ["And now?"]


def text_of(result: dict[str, Any]) -> str:
    """What a tool_result says, as a string or in text blocks."""
    content = result.get("content", "")
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


@pytest.mark.rule("TOOL-023", "TOOL-025", "MSG-017")
@pytest.mark.parametrize(("sent", "received"), [("none", "none"), ("any", "required")])
def test_c009_messages_tool_choice_reaches_openai(
    caller: Caller, p1: BackgroundProvider, sent: str, received: str
) -> None:
    assert caller.messages("fx-oai", tools=[MESSAGES_TOOL], tool_choice={"type": sent}).status_code == 200
    assert p1.requests[0].json["tool_choice"] == received


@pytest.mark.rule("TOOL-023", "CHAT-017")
def test_c009_chat_tool_choice_reaches_anthropic(caller: Caller, p1: BackgroundProvider) -> None:
    assert caller.chat("fx-ant", tools=[function("ping")], tool_choice="required").status_code == 200
    assert p1.requests[0].json["tool_choice"] == {"type": "any"}


@pytest.mark.rule("TOOL-029", "CHAT-018")
def test_c009_a_choice_chat_does_not_know_acts_as_auto(caller: Caller, p1: BackgroundProvider) -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}
    assert caller.chat(tools=[function("ping")], tool_choice=choice).status_code == 200
    assert p1.requests[0].json.get("tool_choice", "auto") == "auto"


@pytest.mark.rule("TOOL-026", "TOOL-030", "TOOL-031", "CHAT-019")
@pytest.mark.parametrize(
    ("format", "tool", "choice"),
    [
        ("messages", MESSAGES_TOOL, {"type": "sometimes"}),
        ("chat", function("ping"), {"type": "function"}),
        ("responses", {"type": "function", "name": "ping"}, {"type": "allowed_tools"}),
    ],
)
def test_c009_a_choice_that_is_none_is_refused(
    caller: Caller, p1: BackgroundProvider, format: str, tool: Any, choice: Any
) -> None:
    answer = caller.ask(format, "fx-oai", tools=[tool], tool_choice=choice)
    assert answer.status_code == 400
    error = answer.json()["error"]
    if format == "messages":
        assert error["type"] == "invalid_request_error"
    else:
        assert error["code"] == "bad_request"
    assert not p1.requests


@pytest.mark.rule("TOOL-007", "TOOL-010")
@pytest.mark.parametrize("content", ["", [{"type": "text", "text": ""}]], ids=["string", "part"])
@pytest.mark.parametrize("result", ["", "ok"])
def test_c013_an_empty_text_beside_a_call_is_no_block(
    caller: Caller, p1: BackgroundProvider, content: Any, result: str
) -> None:
    answer = caller.chat(
        "fx-ant",
        tools=[function("ping")],
        messages=[
            user("Go"),
            {"role": "assistant", "content": content, "tool_calls": [CALLED]},
            {"role": "tool", "tool_call_id": "c1", "content": result},
        ],
    )
    assert answer.status_code == 200
    body = p1.requests[0].json
    assert not [block for block in blocks_of(body) if block["type"] == "text" and not block["text"]]
    (call,) = body["messages"][1]["content"]
    assert call["type"] == "tool_use"
    given = body["messages"][2]["content"][0]
    assert (given["type"], given["tool_use_id"]) == ("tool_result", call["id"])
    # No empty text inside the result either.
    assert not isinstance(given.get("content", ""), list) or all(block["text"] for block in given["content"])
    assert text_of(given) == result


@pytest.mark.rule("RESP-005", "RESP-006", "RESP-018", "RESP-029", "RESP-031", "RESP-041", "TOOL-018")
def test_c021_what_responses_does_not_know_is_dropped(caller: Caller, p1: BackgroundProvider) -> None:
    answer = caller.responses(
        input=[
            user("Hi"),
            {"type": "custom_tool_call", "call_id": "k1", "name": "patch", "input": "x"},
            {"type": "web_search_call", "id": "w1"},
        ],
        tools=[
            {"type": "custom", "name": "patch"},
            {"type": "web_search"},
            {"type": "function", "name": "ok", "parameters": {"type": "object"}},
        ],
        include=["reasoning.encrypted_content"],
        store=False,
        parallel_tool_calls=False,
        previous_response_id=None,
    )
    assert answer.status_code == 200
    body = p1.requests[0].json
    assert [tool["function"]["name"] for tool in body["tools"]] == ["ok"]
    assert not {"parallel_tool_calls", "store", "include", "previous_response_id"} & set(body)
    assert [turn["role"] for turn in body["messages"]] == ["user"]


INLINE_PDF = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}
INLINE_PNG = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="}


@pytest.mark.rule("RESP-004", "RESP-011", "RESP-016", "RESP-044", "RESP-045")
@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"input": [user([INLINE_PDF])]}, id="a-file"),
        pytest.param({"tools": [{"type": "function", "parameters": {"type": "object"}}]}, id="a-function-without-name"),
        pytest.param({"previous_response_id": "resp_1"}, id="an-earlier-response"),
        pytest.param({"input": []}, id="no-input"),
        pytest.param({"input": [{"role": "developer", "content": [INLINE_PNG]}]}, id="a-picture-of-the-developer"),
    ],
)
def test_c021_what_responses_cannot_do_is_refused(
    caller: Caller, p1: BackgroundProvider, members: dict[str, Any]
) -> None:
    answer = caller.responses(**members)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert not p1.requests


@pytest.mark.rule("STR-026", "STR-042", "STR-049", "STR-063", "TOOL-032", "TOOL-033")
@pytest.mark.parametrize("format", FORMATS)
def test_calls_that_overlap_reach_every_format_whole(caller: Caller, p1: BackgroundProvider, format: str) -> None:
    """Pieces of one call may come after another has opened: nothing of them is lost or mixed up."""
    opened = [{"index": n, "id": f"c{n}", "function": {"name": f"f{n}", "arguments": ""}} for n in (0, 1)]
    pieces = [{"index": n, "function": {"arguments": piece}} for piece in ('{"n":', "1}") for n in (0, 1)]
    deltas = [delta(tool_calls=[piece]) for piece in (*opened, *pieces)]
    p1.answers(stream(delta("", role="assistant"), *deltas, finish("tool_calls"), usage(8, 9), DONE))
    calls = caller.joined(format, "fx-oai").calls
    assert [(call.name, call.arguments) for call in calls] == [("f0", '{"n":1}'), ("f1", '{"n":1}')]
    assert len({call.id for call in calls}) == 2
