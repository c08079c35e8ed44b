"""What Gemini is sent."""

import json
from typing import Any

import pytest

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
from libs.llm.providers.gemini.contents import seal_call
from libs.llm.providers.gemini.request import provider_body
from libs.llm.reasoning import ReasoningControl
from tests.unit.llm.hub import SCHEMA, TOOL, UPSTREAM, asked, assistant, system, target, tool, user

FLASH, PRO, NEW, NEW_PRO = "gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash", "gemini-3.1-pro-preview"
PICTURE = ImagePart(media_type="image/png", data="iVBORw0=")
PICTURE_SENT = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0="}}
NATIVE = Abilities(json_format=True)


def sent(request: ChatRequest, max_tokens: int = 4_000, model: str = FLASH, **members: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(provider_body(request, target(model=model, **members), max_tokens))
    return body


def said(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [{"text": part} if isinstance(part, str) else part for part in parts]}


def called(id: str, args: Any = None, **members: Any) -> dict[str, Any]:
    return {"functionCall": {"id": id, "name": "look", "args": args or {}}} | members


def result(id: str, name: str = "look", **response: str) -> dict[str, Any]:
    return {"functionResponse": {"id": id, "name": name, "response": response}}


def test_a_plain_request_holds_no_more_than_was_asked() -> None:
    assert sent(asked(system="Be brief")) == {
        "contents": [said("Hi")],
        "systemInstruction": {"parts": [{"text": "Be brief"}]},
        "generationConfig": {"maxOutputTokens": 4_000},
    }


@pytest.mark.parametrize(("prompt", "told"), [("Be brief", "Be brief"), ("", ".")])
def test_a_request_in_which_nobody_speaks_has_something_to_answer(prompt: str, told: str) -> None:
    body = sent(asked(user(""), system=prompt))
    assert (body.get("systemInstruction"), body["contents"]) == (None, [said(told)])


def test_settings_have_their_own_names() -> None:
    request = asked(temperature=0.3, top_p=0.9, top_k=5, stop=("a", "", *"bcdef"), user="u", cache_key="k")
    assert sent(request)["generationConfig"] == {
        "maxOutputTokens": 4_000,
        "temperature": 0.3,
        "topP": 0.9,
        "topK": 5,
        "stopSequences": list("abcde"),
    }


@pytest.mark.rule("TOOL-007", "TOOL-008", "TOOL-010", "TOOL-016", "TOOL-020", "TOOL-045")
def test_results_name_their_call_and_stand_together() -> None:
    request = asked(
        user("What?"),
        assistant("Let me look.", ToolCall("call_a", "look", '{"n": 1}'), ToolCall("call_b", "look", "")),
        tool(ToolResultPart("call_b", [TextPart("seen"), PICTURE])),
        tool(ToolResultPart("call_a", [TextPart('{"not":"touched"}')], failed=True)),
        system("Now be quick."),
        user("Go on"),
    )
    assert sent(request)["contents"] == [
        said("What?"),
        model("Let me look.", called("call_a", {"n": 1}), called("call_b")),
        said(result("call_a", error='{"not":"touched"}'), result("call_b", output="seen")),
        said("Given back by look:", PICTURE_SENT),
        said("Now be quick."),
        said("Go on"),
    ]


def test_each_turn_of_the_model_has_its_own_results() -> None:
    request = asked(
        user("?"),
        assistant(ToolCall("a", "look", "{}")),
        tool(ToolResultPart("a", [])),
        assistant(ToolCall("b", "look", "{}")),
        tool(ToolResultPart("b", [])),
    )
    assert sent(request)["contents"][1:] == [
        model(called("a")),
        said(result("a", output="")),
        model(called("b")),
        said(result("b", output="")),
    ]


def test_a_result_without_its_call_is_still_told() -> None:
    assert sent(asked(tool(ToolResultPart("x", [TextPart("1")]))))["contents"] == [
        said("[Result of an earlier call, x:]", "1")
    ]


def test_a_call_follows_something_that_was_said() -> None:
    written = sent(asked(assistant(ToolCall("a", "look", "{}")), tool(ToolResultPart("a", []))))["contents"]
    assert written == [said("(The conversation goes on from here.)"), model(called("a")), said(result("a", output=""))]


@pytest.mark.parametrize("arguments", ["[1]", "{oops", "7", '{"a":1} x', '{"a":' + "[" * 100_000])
def test_arguments_that_are_no_object_are_told_as_text(arguments: str) -> None:
    contents = sent(asked(user("?"), assistant(ToolCall("a", "look", arguments))))["contents"]
    assert contents[1] == model(called("a", {"arguments": arguments}))


@pytest.mark.rule("VIS-005", "VIS-008", "VIS-011", "VIS-035")
def test_pictures_and_documents_stay_in_place_and_unchanged() -> None:
    request = asked(
        user(
            "A",
            PICTURE,
            ImagePart(url="https://pics.example/a"),
            "B",
            DocumentPart(media_type="application/pdf", data="JVBE", name="a.pdf"),
        )
    )
    assert sent(request)["contents"] == [
        said(
            "A",
            PICTURE_SENT,
            {"fileData": {"fileUri": "https://pics.example/a"}},
            "B",
            {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}},
        )
    ]


def test_turns_without_content_are_left_out() -> None:
    assert sent(asked(user("a"), assistant(""), user(""), user("b")))["contents"] == [said("a"), said("b")]


@pytest.mark.rule("TOOL-018", "JSON-031")
def test_tools_keep_their_schemas() -> None:
    body = provider_body(asked(tools=[TOOL, FunctionTool(name="bare", strict=True)]), target(), 100)
    assert bytes(SCHEMA) in body
    assert json.loads(body)["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "look",
                    "description": "Look it up",
                    "parametersJsonSchema": json.loads(bytes(SCHEMA)),
                },
                {"name": "bare"},
            ]
        }
    ]


@pytest.mark.rule("TOOL-021", "TOOL-022", "TOOL-023", "TOOL-024", "TOOL-025")
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (None, None),
        (ToolChoice("auto"), {"mode": "AUTO"}),
        (ToolChoice("none"), {"mode": "NONE"}),
        (ToolChoice("required"), {"mode": "ANY"}),
        (ToolChoice("function", "look"), {"mode": "ANY", "allowedFunctionNames": ["look"]}),
    ],
)
def test_the_choice_of_tools(choice: ToolChoice | None, told: object) -> None:
    config = sent(asked(tools=[TOOL], tool_choice=choice)).get("toolConfig")
    assert config == (told and {"functionCallingConfig": told})
    assert "toolConfig" not in sent(asked(tool_choice=choice))


def on(effort: Effort | None, budget: int | None = None) -> ReasoningControl:
    return ReasoningControl(state="on", effort=effort, budget=budget)


OFF, SOFTLY_OFF = ReasoningControl(state="off"), ReasoningControl(state="off", off_softly=True)


@pytest.mark.rule("RSN-009", "RSN-017", "RSN-022", "RSN-024")
@pytest.mark.parametrize(
    ("name", "control", "max_tokens", "told"),
    [
        (FLASH, ReasoningControl(), 4_000, None),
        (FLASH, SOFTLY_OFF, 4_000, None),
        (FLASH, OFF, 4_000, {"thinkingBudget": 0}),
        (PRO, OFF, 4_000, {"thinkingBudget": 128}),
        (NEW, OFF, 4_000, {"thinkingLevel": "minimal"}),
        (NEW_PRO, OFF, 4_000, {"thinkingLevel": "low"}),
        (FLASH, on(Effort.LOW), 65_536, {"includeThoughts": True, "thinkingBudget": 4_096}),
        (FLASH, on(Effort.LOW), 4_000, {"includeThoughts": True, "thinkingBudget": 1_024}),
        (FLASH, on(Effort.MAX), 100_000, {"includeThoughts": True, "thinkingBudget": 24_576}),
        (PRO, on(Effort.MAX), 100_000, {"includeThoughts": True, "thinkingBudget": 32_768}),
        (FLASH, on(Effort.LOW, 2_000), 4_000, {"includeThoughts": True, "thinkingBudget": 2_000}),
        (FLASH, on(Effort.LOW), 1_000, {"includeThoughts": True}),
        (NEW, on(Effort.LOW), 4_000, {"includeThoughts": True, "thinkingLevel": "low"}),
        (NEW, on(Effort.MEDIUM, 9_000), 4_000, {"includeThoughts": True, "thinkingLevel": "medium"}),
        (NEW, on(Effort.MAX), 4_000, {"includeThoughts": True, "thinkingLevel": "high"}),
        (NEW, on(None, 9_000), 4_000, {"includeThoughts": True}),
    ],
)
def test_thinking_in_the_words_of_each_generation(
    name: str, control: ReasoningControl, max_tokens: int, told: object
) -> None:
    assert sent(asked(), max_tokens, name, reasoning=control)["generationConfig"].get("thinkingConfig") == told


@pytest.mark.rule("JSON-003", "JSON-006", "JSON-016", "JSON-017", "JSON-031")
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_json_is_in_the_instruction_always_and_in_its_own_fields_where_they_are_known(schema: Any) -> None:
    request = asked(system="Be brief", output_format=OutputFormat(kind="json_schema", schema=schema))
    plain, native = sent(request), sent(request, abilities=NATIVE)
    instruction = plain["systemInstruction"]["parts"][0]["text"]
    assert instruction.startswith("Be brief\n\n") and "JSON" in instruction
    assert schema is None or bytes(schema).decode() in instruction
    own = {"responseMimeType": "application/json"}
    if schema is not None:
        own["responseJsonSchema"] = json.loads(bytes(schema))
    assert native == plain | {"generationConfig": plain["generationConfig"] | own}


def test_json_beside_functions_is_left_to_the_instruction() -> None:
    request = asked(tools=[TOOL], output_format=OutputFormat(kind="json_object"))
    assert sent(request, abilities=NATIVE) == sent(request)


CALLS = (ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}"))
NO_PROOF = "skip_thought_signature_validator"


@pytest.mark.parametrize("name", [FLASH, NEW])
def test_the_proof_of_a_call_goes_back_to_that_call(name: str) -> None:
    proof = ReasoningPart("why", seal_call(UPSTREAM, "proof"))
    body = sent(asked(user("?"), assistant(proof), assistant("So", *CALLS)), model=name)
    assert body["contents"][1] == model("So", called("a", thoughtSignature="proof"), called("b"))


@pytest.mark.parametrize("signature", ["", "ErUBCk", "kn1.junk", seal_call("prov:cred_2", "proof")])
def test_calls_without_our_proof_are_marked_so_for_models_that_ask(signature: str) -> None:
    request = asked(user("?"), assistant(ReasoningPart("why", signature), *CALLS))
    assert sent(request)["contents"][1] == model(called("a"), called("b"))
    unproved = model(called("a", thoughtSignature=NO_PROOF), called("b"))
    assert sent(request, model=NEW)["contents"][1] == unproved


@pytest.mark.rule("CACHE-009")
@pytest.mark.parametrize("name", [FLASH, NEW])
def test_a_longer_conversation_begins_like_the_shorter_one(name: str) -> None:
    turns = (user("?"), assistant(*CALLS), tool(ToolResultPart("a", [])), tool(ToolResultPart("b", [])))
    short = sent(asked(*turns), model=name)["contents"]
    longer = sent(asked(*turns, assistant("So"), user("And?"), assistant(CALLS[0])), model=name)["contents"]
    assert longer[: len(short)] == short
