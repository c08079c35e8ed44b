"""What a Chat completions body becomes in the hub: turns, pictures, documents, tools, wishes."""

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import decode

from libs.llm.canonical import (
    NO_WISH,
    DocumentPart,
    Effort,
    FunctionTool,
    ImagePart,
    Message,
    OutputFormat,
    ReasoningPart,
    ReasoningWish,
    Role,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResultPart,
)
from libs.llm.failures import BadRequest
from libs.llm.formats.openai_chat.request import parse
from libs.llm.providers.base import Target
from libs.llm.providers.openai_chat.request import provider_body
from libs.llm.system_prompt import json_instruction

TARGET = Target(base_url="http://up/v1", model="up")
HI = {"role": "user", "content": "Hi"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="


def body(**members: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [HI]} | members).encode()


def turns(*messages: Any) -> bytes:
    return body(messages=[HI, *messages])


def user(*parts: Any) -> bytes:
    return body(messages=[{"role": "user", "content": list(parts)}])


def image(url: Any, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url} | more}


def file(**members: Any) -> dict[str, Any]:
    return {"type": "file", "file": members}


def refused(raw: bytes) -> str | None:
    with pytest.raises(BadRequest) as caught:
        parse(raw)
    return caught.value.field


@pytest.mark.parametrize(
    ("turn", "read"),
    [
        pytest.param(
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
                {"id": "c", "type": "function", "function": {"name": "h", "arguments": {"y": 2}}},
                {"id": "d", "type": "custom", "custom": {"name": "k", "input": "x"}},
            ]},
            Message(Role.ASSISTANT, [
                ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g", "{}"), ToolCall("c", "h", '{"y":2}')
            ]),
            marks=pytest.mark.rule("CHAT-033", "TOOL-007"), id="calls",
        ),
        pytest.param(
            {"role": "assistant", "content": "so", "reasoning_content": "why", "tool_calls": None},
            Message(Role.ASSISTANT, [ReasoningPart("why"), TextPart("so")]),
            marks=pytest.mark.rule("CHAT-034"), id="reasoning_content",
        ),
        pytest.param(
            {"role": "assistant", "content": "so", "reasoning": "why"},
            Message(Role.ASSISTANT, [ReasoningPart("why"), TextPart("so")]),
            marks=pytest.mark.rule("CHAT-034"), id="reasoning",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "a", "content": '{"t": 31}'},
            Message(Role.TOOL, [ToolResultPart("a", [TextPart('{"t": 31}')])]),
            marks=pytest.mark.rule("CHAT-035", "TOOL-008"), id="result",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}, image(PNG)]},
            Message(Role.TOOL, [ToolResultPart(
                "a", [TextPart("1"), ImagePart(media_type="image/png", data="iVBORw0KGgo=")]
            )]),
            id="result of parts",
        ),
        pytest.param(
            {"role": "tool", "tool_call_id": "a", "content": ""},
            Message(Role.TOOL, [ToolResultPart("a", [TextPart("")])]),
            id="empty result",
        ),
    ],
)  # fmt: skip
def test_turns_become_parts_of_the_hub(turn: dict[str, Any], read: Message) -> None:
    request = parse(turns(turn))
    assert request.messages[1] == read
    assert request.uses_tools is any(isinstance(part, ToolCall | ToolResultPart) for part in read.parts)


@pytest.mark.parametrize(
    "calls", [4, {}, ["x"], [{"function": {}}], [{"function": {"name": 4}}], [{"id": 4, "function": {"name": "f"}}]]
)
def test_calls_that_are_none_are_refused(calls: Any) -> None:
    assert refused(turns({"role": "assistant", "tool_calls": calls})) == "messages[1].tool_calls"


@pytest.mark.rule("CHAT-040", "VIS-005", "VIS-008", "CHAT-039")
def test_pictures_and_texts_keep_their_order() -> None:
    parts = [{"type": "text", "text": "a"}, image(PNG), image("https://x/a.png", detail="low"), {"type": "zz"},
             {"type": "text", "text": "b"}]  # fmt: skip
    request = parse(user(*parts))
    assert request.messages[0].parts == [
        TextPart("a"),
        ImagePart(media_type="image/png", data="iVBORw0KGgo="),
        ImagePart(url="https://x/a.png", detail="low"),
        TextPart("b"),
    ]
    assert (request.images, request.remote_images) == (2, 1)


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("data:image/jpg;base64,/9j/", ImagePart(media_type="image/jpeg", data="/9j/")),
        ("DATA:IMAGE/PNG;BASE64,AA==", ImagePart(media_type="image/png", data="AA==")),
        ("HTTPS://X/a.png", ImagePart(url="HTTPS://X/a.png")),
        ("http://x/a.png", ImagePart(url="http://x/a.png")),
    ],
)
def test_addresses_of_pictures(url: str, read: ImagePart) -> None:
    assert parse(user(image(url))).messages[0].parts == [read]


@pytest.mark.parametrize("url", ["", "a.png", "file:///etc/passwd", "ftp://x/a", "data:image/png,xx", "javascript:1"])
def test_other_addresses_are_refused(url: str) -> None:
    assert refused(user(image(url))) == "messages[0].content[0].image_url.url"


@pytest.mark.rule("CHAT-041")
def test_a_document_comes_with_its_name() -> None:
    request = parse(user(file(filename="a.pdf", file_data=PDF)))
    assert request.messages[0].parts == [DocumentPart(media_type="application/pdf", data="JVBERi0=", name="a.pdf")]
    assert request.images == 0


@pytest.mark.rule("VIS-020")
def test_a_picture_in_a_file_part_is_a_picture() -> None:
    request = parse(user({"type": "text", "text": "?"}, file(filename="a.png", file_data=PNG)))
    assert request.messages[0].parts[1] == ImagePart(media_type="image/png", data="iVBORw0KGgo=")
    assert request.images == 1
    told = json.loads(provider_body(request, TARGET, "max_tokens", 9, stream=False))
    assert told["messages"][0]["content"] == [{"type": "text", "text": "?"}, image(PNG)]


@pytest.mark.parametrize("data", ["", "JVBERi0=", "https://x/a.pdf", 4, "data:text/plain,hello"])
def test_file_data_that_are_no_data_url_are_refused(data: Any) -> None:
    assert refused(user(file(file_data=data))) == "messages[0].content[0].file.file_data"


def test_a_file_that_lies_at_a_provider_is_for_that_provider() -> None:
    parts = [file(file_id="file-1")]
    request = parse(user(*parts))
    assert request.messages[0].parts == []
    told = json.loads(provider_body(request, TARGET, "max_tokens", 9, stream=False))
    assert told["messages"][0]["content"] == parts


@pytest.mark.rule("TOOL-003")
def test_functions_are_read_and_others_kept() -> None:
    other = {"type": "web_search", "web_search": {"x": 1}}
    bare = {"function": {"name": "g"}}
    raw = body(tools=[{"type": "function", "function": FUNCTION}, other, bare])
    request = parse(raw)
    assert request.tools == [
        FunctionTool(name="f", description="d", parameters=Raw(json.dumps(SCHEMA).encode()), strict=True),
        FunctionTool(name="g"),
    ]
    assert [decode(tool) for tool in request.tools_elsewhere] == [other]
    told = json.loads(provider_body(request, TARGET, "max_tokens", 9, stream=False))
    assert told["tools"] == [{"type": "function", "function": FUNCTION}, other, bare]


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ("f", "tools[0]"),
        ({"type": 4}, "tools[0]"),
        ({"type": "kenari:web_search"}, "tools[0].type"),
        ({"type": "function"}, "tools[0].function.name"),
        ({"type": "function", "name": "f"}, "tools[0].function.name"),
        ({"type": "function", "function": "f"}, "tools[0].function"),
        ({"type": "function", "function": {"name": ""}}, "tools[0].function.name"),
        ({"type": "function", "function": {"name": "f", "description": 4}}, "tools[0].function"),
        ({"type": "function", "function": {"name": "f", "parameters": "x"}}, "tools[0].function.parameters"),
    ],
)
def test_tools_that_cannot_be_called_are_refused(tool: Any, field: str) -> None:
    assert refused(body(tools=[tool])) in (field, field.removesuffix(".name"))


@pytest.mark.rule("CHAT-017", "CHAT-018", "TOOL-029")
@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ("auto", ToolChoice("auto")), ("none", ToolChoice("none")), ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("function", "f")),
        ("any", None), ({"type": "allowed_tools"}, None), (4, None), (None, None),
    ],
)  # fmt: skip
def test_tool_choices(choice: Any, read: ToolChoice | None) -> None:
    assert parse(body(tool_choice=choice)).tool_choice == read


@pytest.mark.parametrize(
    ("members", "wish"),
    [
        pytest.param({}, NO_WISH, id="nothing"),
        pytest.param({"reasoning": None}, NO_WISH, id="null"),
        pytest.param({"reasoning": {}}, NO_WISH, id="empty", marks=pytest.mark.rule("RSN-020")),
        pytest.param({"reasoning_effort": "high"}, ReasoningWish(effort=Effort.HIGH), id="field"),
        pytest.param(
            {"reasoning": {"effort": "low"}}, ReasoningWish(effort=Effort.LOW), id="object",
            marks=pytest.mark.rule("RSN-021"),
        ),
        pytest.param(
            {"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, ReasoningWish(effort=Effort.LOW),
            id="the object wins", marks=pytest.mark.rule("RSN-027"),
        ),
        pytest.param(
            {"reasoning": {"exclude": True}, "reasoning_effort": "high"},
            ReasoningWish(effort=Effort.HIGH, exclude=True), id="exclude alone", marks=pytest.mark.rule("RSN-027"),
        ),
        pytest.param(
            {"reasoning": {"enabled": True}, "reasoning_effort": "high"}, ReasoningWish(enabled=True), id="enabled",
            marks=pytest.mark.rule("RSN-023"),
        ),
        pytest.param(
            {"reasoning": {"enabled": False, "effort": "high", "max_tokens": 9}, "reasoning_effort": "high"},
            ReasoningWish(enabled=False), id="off", marks=pytest.mark.rule("RSN-022"),
        ),
        pytest.param(
            {"reasoning": {"max_tokens": 2_000}}, ReasoningWish(budget=2_000), id="budget",
            marks=pytest.mark.rule("RSN-024"),
        ),
        pytest.param(
            {"reasoning": {"max_tokens": 10**12}}, ReasoningWish(budget=2**31 - 1), id="a giant budget"
        ),
        pytest.param(
            {"reasoning": {"effort": "none"}}, ReasoningWish(effort=Effort.NONE), id="none",
            marks=pytest.mark.rule("RSN-005"),
        ),
    ],
)  # fmt: skip
def test_the_wish_about_reasoning(members: dict[str, Any], wish: ReasoningWish) -> None:
    assert parse(body(**members)).reasoning == wish


@pytest.mark.parametrize(
    "members",
    [{"reasoning_effort": "x"}, {"reasoning": {"effort": "x"}}, {"reasoning": {"max_tokens": 0}}, {"reasoning": True},
     {"reasoning": {"enabled": "yes"}}, {"reasoning": {"effort": "low"}, "reasoning_effort": "x"}],
)  # fmt: skip
def test_wishes_nobody_understands_are_refused(members: dict[str, Any]) -> None:
    assert str(refused(body(**members))).startswith("reasoning")


@pytest.mark.parametrize(
    ("wanted", "read"),
    [
        pytest.param({"type": "text"}, None, marks=pytest.mark.rule("JSON-023"), id="text"),
        pytest.param(None, None, marks=pytest.mark.rule("JSON-023"), id="null"),
        pytest.param(
            {"type": "json_object"}, OutputFormat(kind="json_object"), marks=pytest.mark.rule("JSON-003"), id="object"
        ),
        pytest.param(
            {"type": "json_schema", "json_schema": {"name": "o", "schema": SCHEMA, "strict": True}},
            OutputFormat(kind="json_schema", name="o", schema=Raw(json.dumps(SCHEMA).encode()), strict=True),
            marks=pytest.mark.rule("JSON-006", "JSON-031"), id="schema",
        ),
        pytest.param(
            {"type": "json_schema", "json_schema": {"name": "o"}}, OutputFormat(kind="json_schema", name="o"),
            marks=pytest.mark.rule("JSON-007"), id="without schema",
        ),
        pytest.param({"type": "json_schema"}, OutputFormat(kind="json_schema"), id="without anything"),
    ],
)  # fmt: skip
def test_the_output_format_and_its_tokens(wanted: Any, read: OutputFormat | None) -> None:
    request, plain = parse(body(response_format=wanted)), parse(body())
    assert request.output_format == read
    extra = (request.input_tokens - plain.input_tokens) * 4
    assert extra == 0 if read is None else abs(extra - len(json_instruction(read))) < 4


@pytest.mark.rule("JSON-023")
@pytest.mark.parametrize("wanted", [{"type": "xml"}, {}, 4, {"type": "json_schema", "json_schema": {"schema": 4}}])
def test_other_output_formats_are_refused(wanted: Any) -> None:
    assert str(refused(body(response_format=wanted))).startswith("response_format")


@pytest.mark.rule("CACHE-026", "CACHE-027", "CACHE-028", "CACHE-029")
@pytest.mark.parametrize(
    ("key", "read"),
    [(" a ", "a"), ("", None), (" ", None), ("k" * 512, "k" * 512), ("k" * 513, None), ("€" * 170, "€" * 170),
     ("€" * 171, None), (" " + "k" * 512, "k" * 512), (4, None), (None, None)],
)  # fmt: skip
def test_the_cache_key(key: Any, read: str | None) -> None:
    assert parse(body(prompt_cache_key=key)).cache_key == read
