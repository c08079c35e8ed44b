"""What a Responses provider is sent, made from the hub alone."""

import json
from typing import Any

import pytest
from msgspec import Raw

from libs.llm.canonical import (
    ChatRequest,
    DocumentPart,
    Effort,
    FunctionTool,
    ImagePart,
    OutputFormat,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from libs.llm.providers.base import Abilities
from libs.llm.providers.openai_responses.items import seal_reasoning
from libs.llm.providers.openai_responses.request import provider_body
from libs.llm.reasoning import ReasoningControl
from tests.unit.llm.hub import SCHEMA, TOOL, UPSTREAM, asked, assistant, system, target, tool, user

PICTURE = ImagePart(media_type="image/png", data="iVBORw0=", detail="low")


def sent(request: ChatRequest, max_tokens: int = 100, *, stream: bool = False, **members: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(provider_body(request, target(**members), max_tokens, stream=stream))
    return body


def text(role: str, said: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}


def test_a_plain_request_holds_no_more_than_was_asked() -> None:
    assert sent(asked(system="Be brief"), stream=True) == {
        "model": "real",
        "store": False,
        "stream": True,
        "max_output_tokens": 100,
        "instructions": "Be brief",
        "input": [text("user", "Hi")],
    }


@pytest.mark.parametrize(("prompt", "told"), [("Be brief", "Be brief"), ("", ".")])
def test_a_request_in_which_nobody_speaks_has_something_to_answer(prompt: str, told: str) -> None:
    body = sent(asked(user(""), system=prompt))
    assert (body.get("instructions"), body["input"]) == (None, [text("developer", told)])


@pytest.mark.rule("RESP-025")
def test_settings_reach_the_provider_as_sent() -> None:
    body = sent(asked(temperature=0.3, top_p=0.9, cache_key="k", user="u-1", top_k=5, stop=("x",)))
    assert (body["temperature"], body["top_p"], body["prompt_cache_key"]) == (0.3, 0.9, "k")
    assert body["safety_identifier"] == "u-1"
    assert "top_k" not in body and "stop" not in body


def test_a_user_id_longer_than_the_service_takes_is_left_out() -> None:
    assert "safety_identifier" not in sent(asked(user="u" * 65))


@pytest.mark.parametrize(("limit", "told"), [(1, 16), (16, 16), (17, 17)])
def test_an_output_limit_below_the_smallest_is_raised_to_it(limit: int, told: int) -> None:
    assert sent(asked(), limit)["max_output_tokens"] == told


@pytest.mark.rule("RESP-031", "RESP-032", "RESP-033")
def test_members_of_a_responses_client_that_nobody_reads_are_not_passed_on() -> None:
    fields = {name: Raw(b"1") for name in ("truncation", "seed", "parallel_tool_calls", "metadata", "provider")}
    body = sent(asked(dialect="openai_responses", fields=fields))
    assert body == sent(asked())


@pytest.mark.rule("RESP-037", "RESP-038", "TOOL-007", "TOOL-010", "TOOL-020", "TOOL-045")
def test_a_conversation_with_calls_keeps_order_and_ids() -> None:
    request = asked(
        user("What?"),
        assistant("Let me look.", ToolCall("call_a", "look", '{"n":1}'), ToolCall("call_b", "look", "{}")),
        tool(ToolResultPart("call_a", [TextPart("one"), TextPart("two")])),
        tool(ToolResultPart("call_b", [TextPart("seen"), PICTURE])),
        system("Now be quick."),
        user("Go on"),
    )
    assert sent(request)["input"] == [
        text("user", "What?"),
        text("assistant", "Let me look."),
        {"type": "function_call", "call_id": "call_a", "name": "look", "arguments": '{"n":1}'},
        {"type": "function_call", "call_id": "call_b", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_a", "output": "one\ntwo"},
        {
            "type": "function_call_output",
            "call_id": "call_b",
            "output": [
                {"type": "input_text", "text": "seen"},
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0=", "detail": "low"},
            ],
        },
        text("developer", "Now be quick."),
        text("user", "Go on"),
    ]


@pytest.mark.rule("VIS-005", "VIS-008", "VIS-035")
def test_pictures_and_documents_stay_in_place_and_unchanged() -> None:
    request = asked(
        user(
            "A",
            PICTURE,
            ImagePart(url="https://pics.example/a.png", detail="odd"),
            "B",
            DocumentPart(media_type="application/pdf", data="JVBE", name="a.pdf"),
            DocumentPart(media_type="text/plain", data="aGk="),
            DocumentPart(url="https://docs.example/a.pdf"),
        )
    )
    assert sent(request)["input"][0]["content"] == [
        {"type": "input_text", "text": "A"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0=", "detail": "low"},
        {"type": "input_image", "image_url": "https://pics.example/a.png", "detail": "auto"},
        {"type": "input_text", "text": "B"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"},
        {"type": "input_file", "filename": "document.txt", "file_data": "data:text/plain;base64,aGk="},
        {"type": "input_file", "file_url": "https://docs.example/a.pdf"},
    ]


@pytest.mark.rule("TOOL-018", "JSON-031")
def test_tools_are_flat_and_their_schemas_untouched() -> None:
    bare = FunctionTool(name="bare", strict=True)
    body = provider_body(asked(tools=[TOOL, bare]), target(), 100, stream=False)
    assert bytes(SCHEMA) in body
    assert json.loads(body)["tools"] == [
        {
            "type": "function",
            "name": "look",
            "strict": False,
            "description": "Look it up",
            "parameters": json.loads(bytes(SCHEMA)),
        },
        {"type": "function", "name": "bare", "strict": True, "parameters": {"type": "object", "properties": {}}},
    ]


@pytest.mark.rule("TOOL-021", "TOOL-022", "TOOL-023", "TOOL-024", "TOOL-025")
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (None, None),
        (ToolChoice("auto"), "auto"),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("function", "look"), {"type": "function", "name": "look"}),
    ],
)
def test_the_choice_of_tools(choice: ToolChoice | None, told: object) -> None:
    assert sent(asked(tools=[TOOL], tool_choice=choice)).get("tool_choice") == told
    assert "tool_choice" not in sent(asked(tool_choice=choice))


@pytest.mark.rule("RSN-009", "RSN-010", "RSN-017", "RSN-022")
@pytest.mark.parametrize(
    ("control", "told"),
    [
        (ReasoningControl(), None),
        (ReasoningControl(state="on", effort=Effort.HIGH), {"effort": "high", "summary": "auto"}),
        (ReasoningControl(state="on", effort=Effort.LOW, budget=2000), {"effort": "low", "summary": "auto"}),
        (ReasoningControl(state="off"), {"effort": "none"}),
        (ReasoningControl(state="off", off_softly=True), None),
    ],
)
def test_reasoning_is_what_the_gate_allows(control: ReasoningControl, told: object) -> None:
    body = sent(asked(), reasoning=control)
    assert body.get("reasoning") == told
    assert body.get("include") == (["reasoning.encrypted_content"] if control.state == "on" else None)


@pytest.mark.rule("JSON-016", "JSON-017", "JSON-031")
def test_a_schema_is_in_the_instruction_always_and_in_its_own_field_where_that_is_known() -> None:
    wanted = OutputFormat(kind="json_schema", name="n", schema=SCHEMA, strict=True)
    request = asked(system="Be brief", output_format=wanted)
    plain, native = sent(request), sent(request, abilities=Abilities(json_format=True))
    assert plain["instructions"].startswith("Be brief\n\n") and SCHEMA_TEXT in plain["instructions"]
    assert "text" not in plain
    assert native == plain | {
        "text": {"format": {"type": "json_schema", "name": "n", "schema": json.loads(SCHEMA_TEXT), "strict": True}}
    }


@pytest.mark.rule("JSON-003", "JSON-016", "JSON-017")
def test_plain_json_names_json_in_the_input_where_the_service_looks_for_it() -> None:
    request = asked(system="Be brief", output_format=OutputFormat(kind="json_object"))
    assert "JSON" in sent(request)["instructions"]
    native = sent(request, abilities=Abilities(json_format=True))
    assert native["text"] == {"format": {"type": "json_object"}}
    assert native["instructions"] == "Be brief"
    assert native["input"][0]["role"] == "developer" and "JSON" in native["input"][0]["content"][0]["text"]


def test_a_schema_without_a_name_gets_one() -> None:
    request = asked(output_format=OutputFormat(kind="json_schema", schema=SCHEMA))
    assert sent(request, abilities=Abilities(json_format=True))["text"]["format"]["name"] == "answer"


SCHEMA_TEXT = bytes(SCHEMA).decode()
OWN = seal_reasoning(UPSTREAM, "rs_1", "sealed")
CALL = ToolCall("call_a", "look", "{}")


def test_own_reasoning_goes_back_before_what_it_led_to() -> None:
    body = sent(asked(user("a"), assistant(ReasoningPart("why", OWN)), assistant(CALL), user("b")))
    assert body["input"][1:3] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "why"}],
            "encrypted_content": "sealed",
        },
        {"type": "function_call", "call_id": "call_a", "name": "look", "arguments": "{}"},
    ]
    assert body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.rule("STR-048")
@pytest.mark.parametrize(
    "signature",
    ["", "ErUBCk", "kn1.junk", seal_reasoning("prov:cred_2", "rs_1", "sealed"), seal_reasoning(UPSTREAM, "rs_1", "")],
)
def test_reasoning_of_others_is_left_out(signature: str) -> None:
    body = sent(asked(user("a"), assistant(ReasoningPart("why", signature), "so"), user("b")))
    assert [item["type"] for item in body["input"]] == ["message"] * 3


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    body = sent(asked(user("a"), assistant(ReasoningPart("why", OWN)), user("b"), assistant("so"), user("c")))
    assert [item["type"] for item in body["input"]] == ["message"] * 4
