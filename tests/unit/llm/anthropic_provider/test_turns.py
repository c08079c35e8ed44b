"""The turns an Anthropic-format provider is sent for conversations of other dialects."""

import json
from typing import Any

import pytest

from libs.llm.canonical import (
    SEALED,
    ChatRequest,
    DocumentPart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolResultPart,
)
from libs.llm.providers.anthropic.request import provider_body
from libs.llm.providers.base import Abilities
from libs.llm.providers.pairing import NO_RESULT
from tests.unit.llm.hub import asked, assistant, system, target, tool, user

PICTURE = ImagePart(media_type="image/png", data="iVBORw0=", detail="low")
PICTURE_SENT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}
CALL_A, CALL_B = ToolCall("call_a", "look", '{"n":1}'), ToolCall("call_b", "look", "{}")
DIALECTS = pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])


def sent(request: ChatRequest, **members: Any) -> list[Any]:
    body = json.loads(provider_body(request, target(**members), 100, stream=False))
    messages: list[Any] = body["messages"]
    return messages


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def turn(role: str, *blocks: Any) -> dict[str, Any]:
    return {"role": role, "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def use(id: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "look", "input": given}


def given_back(id: str, content: Any, **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content} | members


def result(id: str, *parts: Any, failed: bool = False) -> Message:
    return tool(ToolResultPart(id, [TextPart(part) if isinstance(part, str) else part for part in parts], failed))


@pytest.mark.rule("TOOL-007", "TOOL-008", "TOOL-010", "TOOL-020", "TOOL-034", "TOOL-045")
@DIALECTS
def test_a_conversation_with_calls_keeps_order_and_ids(dialect: str) -> None:
    request = asked(
        user("What?"),
        assistant("Let me look.", CALL_A, CALL_B),
        result("call_b", "seen", PICTURE),
        result("call_a", "one", "two", failed=True),
        user("Go on"),
        dialect=dialect,
    )
    assert sent(request) == [
        turn("user", "What?"),
        turn("assistant", "Let me look.", use("call_a", n=1), use("call_b")),
        turn(
            "user",
            given_back("call_a", [text("one"), text("two")], is_error=True),
            given_back("call_b", [text("seen"), PICTURE_SENT]),
            "Go on",
        ),
    ]


@pytest.mark.rule("TOOL-007", "TOOL-010", "TOOL-034")
@pytest.mark.parametrize(
    ("turns", "told"),
    [
        ([user("a"), user("b")], [turn("user", "a", "b")]),
        ([user("a"), assistant("b"), assistant("c")], [turn("user", "a"), turn("assistant", "b", "c")]),
        ([user("a"), system("b"), user("c")], [turn("user", "a", "b", "c")]),
        ([user("a"), assistant("b"), system("c")], [turn("user", "a"), turn("assistant", "b"), turn("user", "c")]),
        (
            [user("a"), assistant(CALL_A), system("b"), result("call_a", "A")],
            [turn("user", "a"), turn("assistant", use("call_a", n=1)), turn("user", given_back("call_a", "A"), "b")],
        ),
        (
            [user("a"), assistant(CALL_A), user("b")],
            [
                turn("user", "a"),
                turn("assistant", use("call_a", n=1)),
                turn("user", given_back("call_a", NO_RESULT), "b"),
            ],
        ),
        (
            [user("a"), assistant(CALL_A)],
            [turn("user", "a"), turn("assistant", use("call_a", n=1)), turn("user", given_back("call_a", NO_RESULT))],
        ),
        (
            [user("a"), assistant(CALL_A), assistant(CALL_B), result("call_a", "A"), result("call_b", "B")],
            [
                turn("user", "a"),
                turn("assistant", use("call_a", n=1)),
                turn("user", given_back("call_a", "A")),
                turn("assistant", use("call_b")),
                turn("user", given_back("call_b", "B")),
            ],
        ),
        (
            [user("a"), result("gone", "A")],
            [turn("user", "a", "[Result of an earlier call, gone:]", "A")],
        ),
        ([user("a"), assistant(CALL_A, "b"), result("call_a")], [
            turn("user", "a"), turn("assistant", "b", use("call_a", n=1)), turn("user", given_back("call_a", ""))
        ]),
    ],
    ids=[
        *("users", "assistants", "system within", "system after", "system before a result", "no result", "call last"),
        *("calls in turn", "no call", "call before text"),
    ],
)  # fmt: skip
def test_turns_alternate_and_results_come_first(turns: list[Message], told: list[Any]) -> None:
    assert sent(asked(*turns)) == told


@pytest.mark.parametrize(
    ("turns", "told"),
    [
        ([assistant("a"), user("b")], ["user", "assistant", "user"]),
        ([user("a"), assistant(" \n"), user("b")], ["user"]),
        ([user("a"), user("", "b")], ["user"]),
        ([user("a"), assistant("b")], ["user", "assistant"]),
    ],
)
def test_the_first_turn_is_the_users_and_no_turn_is_empty(turns: list[Message], told: list[str]) -> None:
    messages = sent(asked(*turns))
    assert [message["role"] for message in messages] == told
    assert all(block["text"].strip() for message in messages for block in message["content"])


def test_an_answer_begun_for_the_model_does_not_end_in_blanks() -> None:
    assert sent(asked(user("a"), assistant("b \n"))) == [turn("user", "a"), turn("assistant", "b")]
    assert sent(asked(user("a"), assistant("b \n"), user("c")))[1] == turn("assistant", "b \n")


@pytest.mark.parametrize(("said", "told"), [("Be brief", "Be brief"), ("", ".")])
def test_a_system_prompt_alone_is_what_the_user_says(said: str, told: str) -> None:
    request = asked(user(""), system=said)
    assert sent(request) == [turn("user", told)]
    assert "system" not in json.loads(provider_body(request, target(), 100, stream=False))


@pytest.mark.rule("TOOL-010", "TOOL-045")
@pytest.mark.parametrize("id", ["functions.look:0", "a b", "é", "", "x" * 300, "a|b"])
def test_ids_of_any_form_become_ids_that_are_taken(id: str) -> None:
    call = ToolCall(id, "look", "{}")
    history = [user("a"), assistant(call), result(id, "A")]
    messages = sent(asked(*history))
    wire = messages[1]["content"][0]["id"]
    assert wire.isascii() and wire.replace("_", "").replace("-", "").isalnum() and len(wire) <= 256
    assert messages[2]["content"][0]["tool_use_id"] == wire
    # The same once more, so that a cached prefix stays valid.
    assert sent(asked(*history, assistant("b"), user("c")))[:3] == messages


@pytest.mark.rule("TOOL-010", "TOOL-032")
def test_an_id_used_again_gets_another_one_and_its_own_result() -> None:
    call = ToolCall("call_0", "look", "{}")
    history = [user("a"), assistant(call, call), result("call_0", "1"), result("call_0", "2")]
    messages = sent(asked(*history, assistant(call), result("call_0", "3")))
    assert [block["id"] for block in messages[1]["content"]] == ["call_0", "call_0_2"]
    assert messages[2]["content"] == [given_back("call_0", "1"), given_back("call_0_2", "2")]
    assert messages[4]["content"] == [given_back("call_0_3", "3")]


@pytest.mark.rule("TOOL-042", "TOOL-045")
@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('{"n": 1, "f": 1.0}', {"n": 1, "f": 1.0}),
        ("", {}),
        (" ", {}),
        ('{"n":', {"raw_arguments": '{"n":'}),
        ("[1]", {"raw_arguments": "[1]"}),
        ("7", {"raw_arguments": "7"}),
        ("[" * 5_000, {"raw_arguments": "[" * 5_000}),
    ],
)
def test_arguments_become_the_object_that_is_asked_for(arguments: str, given: object) -> None:
    messages = sent(asked(user("a"), assistant(ToolCall("c", "look", arguments)), result("c", "A")))
    assert messages[1]["content"][0]["input"] == given


@pytest.mark.rule("VIS-005", "VIS-006", "VIS-008", "VIS-011", "VIS-016", "VIS-017")
@DIALECTS
def test_pictures_stay_in_place_and_unchanged(dialect: str) -> None:
    request = asked(user("A", PICTURE, ImagePart(url="https://pics.example/a.png"), "B"), dialect=dialect)
    at_address = {"type": "image", "source": {"type": "url", "url": "https://pics.example/a.png"}}
    assert sent(request) == [turn("user", "A", PICTURE_SENT, at_address, "B")]


def document(source: dict[str, str], **members: str) -> dict[str, Any]:
    return {"type": "document", "source": source} | members


@pytest.mark.rule("VIS-027", "VIS-029")
@pytest.mark.parametrize(
    ("part", "blocks"),
    [
        (
            DocumentPart(media_type="application/pdf", data="JVBE", name="a.pdf"),
            [document({"type": "base64", "media_type": "application/pdf", "data": "JVBE"}, title="a.pdf")],
        ),
        (
            DocumentPart(media_type="text/csv", data="w6k="),
            [document({"type": "text", "media_type": "text/plain", "data": "é"})],
        ),
        (
            DocumentPart(url="https://docs.example/a.pdf"),
            [document({"type": "url", "url": "https://docs.example/a.pdf"})],
        ),
        (DocumentPart(media_type="text/plain", data="w"), []),
        (DocumentPart(media_type="application/zip", data="UEs="), []),
    ],
)
def test_documents(part: DocumentPart, blocks: list[Any]) -> None:
    assert sent(asked(user("A", part))) == [turn("user", "A", *blocks)]


OWN, HIDDEN = ReasoningPart("Why", "sig"), ReasoningPart("", "hidden", redacted=True)
OWN_SENT = {"type": "thinking", "thinking": "Why", "signature": "sig"}
HIDDEN_SENT = {"type": "redacted_thinking", "data": "hidden"}


@pytest.mark.rule("STR-048", "RESP-037")
@pytest.mark.parametrize(
    ("parts", "blocks"),
    [
        ([OWN, HIDDEN, "a"], [OWN_SENT, HIDDEN_SENT, "a"]),
        ([ReasoningPart("Why"), "a"], ["a"]),
        ([ReasoningPart("Why", f"{SEALED}abc"), "a"], ["a"]),
        ([ReasoningPart("", f"{SEALED}abc", redacted=True), "a"], ["a"]),
        (["a", OWN], ["a"]),
        ([OWN, "a", CALL_B], [OWN_SENT, "a", use("call_b")]),
    ],
    ids=["own", "without proof", "sealed by another", "hidden by another", "after text", "before a call"],
)
def test_earlier_reasoning_goes_back_with_a_proof_of_its_own_kind_only(parts: list[Any], blocks: list[Any]) -> None:
    assert sent(asked(user("Hi"), assistant(*parts), user("c")))[1] == turn("assistant", *blocks)


MARKED = {"cache_control": {"type": "ephemeral"}}
MARKS = Abilities(cache_marks=True)


@pytest.mark.rule("CACHE-001", "CACHE-002", "MSG-043")
@pytest.mark.parametrize(
    ("turns", "last"),
    [
        ([user("a"), assistant("b"), user("c", PICTURE)], PICTURE_SENT),
        ([user("a"), assistant(CALL_A), result("call_a", "A")], given_back("call_a", "A")),
        ([user("a"), assistant("b")], text("b")),
    ],
)
@DIALECTS
def test_two_marks_for_a_provider_that_caches_what_is_marked(dialect: str, turns: list[Message], last: Any) -> None:
    request = asked(*turns, system="Be brief", dialect=dialect)
    body = provider_body(request, target(abilities=MARKS), 100, stream=False)
    assert body.count(b"cache_control") == 2
    told = json.loads(body)
    assert told["system"] == [text("Be brief") | MARKED]
    assert told["messages"][-1]["content"][-1] == last | MARKED


@pytest.mark.rule("CACHE-003")
@DIALECTS
def test_no_mark_for_a_provider_that_caches_by_itself(dialect: str) -> None:
    request = asked(system="Be brief", dialect=dialect)
    assert b"cache_control" not in provider_body(request, target(), 100, stream=False)


@pytest.mark.rule("CACHE-009")
def test_a_longer_conversation_begins_with_the_shorter_one() -> None:
    first = [user("a"), assistant(OWN, CALL_A), result("call_a", "A", PICTURE), assistant("b"), user("c")]
    assert sent(asked(*first, assistant("d"), user("e")))[: len(sent(asked(*first)))] == sent(asked(*first))
