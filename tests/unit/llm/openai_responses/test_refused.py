"""What a Responses body may not hold: each is a 400 whose message says what to fix, and never anything else."""

import json
from typing import Any

import pytest

from libs.llm.failures import BadRequest
from libs.llm.formats.openai_responses import FORMAT
from tests.unit.llm.openai_responses.bodies import HI, PNG, TOOL, body, call, output, parse, reasoning, user


def items(*sent: Any) -> bytes:
    return body(input=list(sent))


REFUSED: list[tuple[str, bytes, str | None]] = [
    ("RESP-058", b"", None),
    ("RESP-058", b"{", None),
    ("RESP-058", b"[]", None),
    ("RESP-058", body() + b"x", None),
    ("RESP-058", b"\xff\xfe", None),
    ("RESP-058", body()[:-1] + b',"x":"\xff"}', None),
    ("RESP-058", body()[:-1] + b',"x":NaN}', None),
    ("RESP-058", body()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    ("RESP-058", b'{"model":"m","input":[{"role":"user","content":"\\ud800"}]}', None),
    ("RESP-058", b'{"model":"m","input":"Hi","text":{"format":{"type":"json_object","x":"\\q"}}}', None),
    ("RESP-008", body(model=...), "model"),
    ("RESP-008", body(model=""), "model"),
    ("RESP-008", body(model=None), "model"),
    ("RESP-008", body(model=4), "model"),
    ("RESP-010", body(input=...), "input"),
    ("RESP-010", body(input=None), "input"),
    ("RESP-011", body(input=""), "input"),
    ("RESP-011", body(input=[]), "input"),
    ("RESP-010", body(input=4), "input"),
    ("RESP-010", body(input={"role": "user"}), "input"),
    ("RESP-011", items({"type": "item_reference", "id": "msg_1"}), "input"),
    ("RESP-004", body(previous_response_id="resp_1"), "previous_response_id"),
    ("RESP-004", body(previous_response_id=""), "previous_response_id"),
    ("RESP-004", body(previous_response_id=4), "previous_response_id"),
    ("RESP-036", items({"role": "tool", "content": "x"}), "input[0].role"),
    ("RESP-036", items(HI, {"role": "robot", "content": "x"}), "input[1].role"),
    ("RESP-036", items({"type": "message", "content": "x"}), "input[0].role"),
    ("RESP-036", items({"role": 4, "content": "x"}), "input[0].role"),
    ("RESP-036", items({}), "input[0].role"),
    ("RESP-035", items({"role": "user"}), "input[0].content"),
    ("RESP-035", items({"role": "user", "content": 4}), "input[0].content"),
    ("RESP-035", items(user("x")), "input[0].content[0]"),
    ("RESP-035", items(user({"text": "x"})), "input[0].content[0]"),
    ("RESP-042", items(user({"type": "input_text"})), "input[0].content[0].text"),
    ("RESP-042", items(user({"type": "input_text", "text": 4})), "input[0].content[0].text"),
    ("RESP-042", items(user({"type": "output_text", "text": None})), "input[0].content[0].text"),
    ("RESP-042", items(user({"type": "refusal", "text": "x"})), "input[0].content[0].refusal"),
    ("RESP-043", items(user({"type": "input_image"})), "input[0].content[0].image_url"),
    ("RESP-043", items(user({"type": "input_image", "image_url": {"url": PNG}})), "input[0].content[0].image_url"),
    ("RESP-043", items(user({"type": "input_image", "image_url": ""})), "input[0].content[0].image_url"),
    ("RESP-043", items(user({"type": "input_image", "file_id": "file_1"})), "input[0].content[0].image_url"),
    ("VIS-016", items(user({"type": "input_image", "image_url": "data:image/png,x"})), "input[0].content[0].image_url"),
    (
        "RESP-044",
        items(HI, {"role": "developer", "content": [{"type": "input_image", "image_url": PNG}]}),
        "input[1].content[0]",
    ),
    (
        "RESP-044",
        items(HI, {"role": "system", "content": [{"type": "input_image", "image_url": PNG}]}),
        "input[1].content[0]",
    ),
    ("RESP-045", items(user({"type": "input_file", "file_data": PNG})), "input[0].content[0]"),
    ("VIS-023", items(HI, call(), output(output=[{"type": "input_file"}])), "input[2].output[0]"),
    ("RESP-037", items(call() | {"call_id": ""}), "input[0].call_id"),
    ("RESP-037", items(call() | {"name": None}), "input[0].name"),
    ("RESP-037", items({"type": "function_call", "call_id": "c", "name": "f"}), "input[0].arguments"),
    ("RESP-037", items(call() | {"arguments": {}}), "input[0].arguments"),
    ("RESP-038", items(output() | {"call_id": ""}), "input[0].call_id"),
    ("RESP-038", items({"type": "function_call_output", "call_id": "c"}), "input[0].output"),
    ("RESP-038", items(output(output={"a": 1})), "input[0].output"),
    ("RESP-039", items(reasoning("") | {"summary": "x"}), "input[0].summary"),
    ("RESP-039", items(reasoning("") | {"summary": [{"type": "summary_text"}]}), "input[0].summary[0].text"),
    ("RESP-016", body(tools=[{"type": "function", "parameters": {}}]), "tools[0].name"),
    ("TOOL-028", body(tools=[TOOL, {"type": "function", "function": {"name": "f"}}]), "tools[1].name"),
    ("RESP-016", body(tools=[TOOL | {"name": ""}]), "tools[0].name"),
    ("ERR-040", body(tools=[TOOL | {"parameters": "x"}]), "tools[0].parameters"),
    ("ERR-040", body(tools=[{"name": "f"}]), "tools[0]"),
    ("ERR-040", body(tools={}), "tools"),
    ("ERR-040", body(tools=[{"type": "kenari:web_search"}]), "tools[0]"),
    ("RESP-020", body(tools=[TOOL], tool_choice="any"), "tool_choice"),
    ("RESP-020", body(tools=[TOOL], tool_choice=4), "tool_choice"),
    ("TOOL-031", body(tools=[TOOL], tool_choice={"type": "allowed_tools"}), "tool_choice"),
    ("RESP-020", body(tools=[{"type": "web_search"}], tool_choice={"type": "web_search"}), "tool_choice"),
    ("RESP-020", body(tools=[TOOL], tool_choice={"type": "function"}), "tool_choice.name"),
    ("RESP-020", body(tools=[TOOL], tool_choice={"type": "function", "name": "other"}), "tool_choice.name"),
    ("RESP-020", body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "f"}}), "tool_choice.name"),
    ("RSN-004", body(reasoning={"effort": "extreme"}), "reasoning.effort"),
    ("ERR-040", body(reasoning="low"), "reasoning"),
    ("RESP-028", body(text={"format": {"type": "grammar"}}), "text.format.type"),
    ("JSON-011", body(text={"format": {"type": ""}}), "text.format.type"),
    ("RESP-028", body(text={"format": {}}), "text.format"),
    ("ERR-040", body(text="json"), "text"),
    ("ERR-040", body(text={"format": {"type": "json_schema", "schema": []}}), "text.format.schema"),
    ("ERR-040", body(instructions=["x"]), "instructions"),
    ("ERR-040", body(max_output_tokens=0), "max_output_tokens"),
    ("ERR-040", body(max_output_tokens=-1), "max_output_tokens"),
    ("ERR-040", body(max_output_tokens="9"), "max_output_tokens"),
    ("ERR-040", body(max_output_tokens=True), "max_output_tokens"),
    ("ERR-040", body()[:-1] + b',"max_output_tokens":' + b"9" * 6_000 + b"}", "max_output_tokens"),
    ("ERR-040", body(temperature="hot"), "temperature"),
    ("ERR-040", body()[:-1] + b',"temperature":1e999}', None),
    ("ERR-040", body(top_p=[]), "top_p"),
    ("ERR-040", body(stream="yes"), "stream"),
]


@pytest.mark.rule("RESP-057")
@pytest.mark.parametrize(
    ("raw", "field"),
    [
        pytest.param(raw, field, marks=pytest.mark.rule(rule), id=f"{n}-{rule}")
        for n, (rule, raw, field) in enumerate(REFUSED)
    ],
)
def test_refused(raw: bytes, field: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)
    message = caught.value.message
    status, told = FORMAT.render_error(caught.value.api_error())
    assert status == 400
    assert json.loads(told) == {
        "error": {"message": message, "type": "bad_request", "param": None, "code": "bad_request"}
    }
    assert 10 < len(message) < 300
    if field is not None:
        assert caught.value.field == field
        assert f"`{field}`" in message


@pytest.mark.rule("ERR-040")
@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"model":"m","input":[' + b'{"type":"x"},' * 120_000 + b'{"type":"x"}]}', "too many items"),
        (b'{"model":"m","input":[' + b"{}," * 800_000 + b"{}]}", "commas and opening brackets"),
    ],
    ids=["items", "marks"],
)
def test_what_would_cost_too_much_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        parse(raw)
