"""The programs the documentation shows, written with the official SDKs against the running gateway."""

import base64
import json
from typing import Any

import anthropic
import openai
import pytest

from tests.support import anthropic_wire
from tests.support.anthropic_wire import end, events, start, text_block
from tests.support.background import BackgroundProvider
from tests.support.provider import DONE, Received, Scripted, completion, delta, finish, stream, usage
from tests.support.system import Person, System, eventually

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PIXEL = base64.b64encode(b"\x89PNG pixel").decode()


@pytest.fixture
def chat(system: System, person: Person) -> openai.OpenAI:
    # Certificates are of no use here and take a while to load.
    return openai.OpenAI(
        base_url=f"{system.base_url}/v1",
        api_key=person.key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=False),
    )


@pytest.fixture
def messages(system: System, person: Person) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=system.base_url,
        api_key=person.key,
        max_retries=0,
        http_client=anthropic.DefaultHttpxClient(verify=False),
    )


@pytest.mark.rule("TOOL-011", "TOOL-040", "TOOL-009", "INT-002")
def test_the_chat_loop_of_tools_ends_in_text(chat: openai.OpenAI, first: BackgroundProvider) -> None:
    first.answers(_calls_then_tells)
    tools: list[Any] = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
    turns: list[Any] = [{"role": "user", "content": "How is Jakarta?"}]
    for _ in range(5):
        said = chat.chat.completions.create(model="fx-oai", messages=turns, tools=tools).choices[0]
        turns.append(said.message)
        if said.finish_reason != "tool_calls":
            break
        for call in said.message.tool_calls or ():
            assert json.loads(call.function.arguments) == {"city": "Jakarta"}  # type: ignore[union-attr]
            turns.append({"role": "tool", "tool_call_id": call.id, "content": "31 degrees"})
    assert (said.finish_reason, said.message.content) == ("stop", "It is 31 degrees.")


def _calls_then_tells(request: Received) -> Scripted:
    if any(message["role"] == "tool" for message in request.json["messages"]):
        return completion("It is 31 degrees.")
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Jakarta"}'}}
    return completion(None, finish_reason="tool_calls", tool_calls=[call])


@pytest.mark.rule("TOOL-017", "TOOL-040", "MSG-001", "INT-003", "AUTH-007")
@pytest.mark.parametrize("model", ["fx-ant", "fx-oai"])
def test_the_messages_loop_of_tools_ends_in_text(
    messages: anthropic.Anthropic, first: BackgroundProvider, model: str
) -> None:
    first.answers(_uses_then_tells if model == "fx-ant" else _calls_then_tells)
    tools: list[Any] = [{"name": "weather", "input_schema": WEATHER}]
    turns: list[Any] = [{"role": "user", "content": "How is Jakarta?"}]
    for _ in range(5):
        said = messages.messages.create(model=model, max_tokens=500, messages=turns, tools=tools)
        turns.append({"role": "assistant", "content": said.content})
        if said.stop_reason != "tool_use":
            break
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "31 degrees"}
            for block in said.content
            if block.type == "tool_use"
        ]
        turns.append({"role": "user", "content": results})
    assert said.stop_reason == "end_turn"
    assert [block.text for block in said.content if block.type == "text"] == ["It is 31 degrees."]


def _uses_then_tells(request: Received) -> Scripted:
    if len(request.json["messages"]) > 1:
        return anthropic_wire.message(anthropic_wire.text("It is 31 degrees."))
    return anthropic_wire.message(anthropic_wire.tool_use("toolu_1", "weather", city="Jakarta"), stop_reason="tool_use")


@pytest.mark.rule("STR-054", "STR-055")
def test_the_messages_stream_program_prints_text_and_tokens(
    messages: anthropic.Anthropic, first: BackgroundProvider
) -> None:
    first.answers(events(start(9), text_block(0, "Halo ", "dunia"), end("end_turn", 4)))
    with messages.messages.stream(
        model="fx-ant", max_tokens=200, messages=[{"role": "user", "content": "Hi"}]
    ) as running:
        pieces = list(running.text_stream)
        final = running.get_final_message()
    assert "".join(pieces) == "Halo dunia"
    assert (final.usage.input_tokens, final.usage.output_tokens) == (9, 4)


@pytest.mark.rule("STR-070", "RESP-001", "RESP-056")
def test_the_responses_programs_print_their_text(chat: openai.OpenAI, first: BackgroundProvider) -> None:
    first.answers(completion("Halo dunia"))
    assert chat.responses.create(model="fx-oai", input="Hi").output_text == "Halo dunia"
    first.answers(stream(delta("Halo "), delta("dunia"), finish("stop"), usage(5, 2), DONE))
    events_seen = list(chat.responses.create(model="fx-oai", input="Hi", stream=True))
    assert "".join(event.delta for event in events_seen if event.type == "response.output_text.delta") == "Halo dunia"
    assert events_seen[-1].type == "response.completed"


@pytest.mark.rule("RSN-015", "RSN-048")
def test_a_thinking_budget_yields_thinking_and_text(messages: anthropic.Anthropic, first: BackgroundProvider) -> None:
    thinking = {"type": "thinking", "thinking": "Let me see.", "signature": "sig"}
    first.answers(anthropic_wire.message(thinking, anthropic_wire.text("42")))
    said = messages.messages.create(
        model="fx-ant",
        max_tokens=4_096,
        thinking={"type": "enabled", "budget_tokens": 2_048},
        messages=[{"role": "user", "content": "?"}],
    )
    assert [block.type for block in said.content] == ["thinking", "text"]
    assert first.requests[-1].json["thinking"] == {"type": "enabled", "budget_tokens": 2_048}


@pytest.mark.rule("CACHE-010", "CACHE-008")
def test_the_caching_program_sees_its_second_run_read_from_the_cache(
    messages: anthropic.Anthropic, first: BackgroundProvider
) -> None:
    hello = anthropic_wire.text("ok")
    first.answers(
        anthropic_wire.message(hello, cache_creation_input_tokens=100, cache_read_input_tokens=0),
        anthropic_wire.message(hello, cache_creation_input_tokens=0, cache_read_input_tokens=100),
    )
    system: Any = [{"type": "text", "text": "Short.", "cache_control": {"type": "ephemeral"}}]
    reads = [
        messages.messages.create(
            model="fx-ant", max_tokens=50, system=system, messages=[{"role": "user", "content": "Hi"}]
        ).usage.cache_read_input_tokens
        for _ in range(2)
    ]
    assert reads == [0, 100]
    assert first.requests[-1].json["system"] == system


@pytest.mark.rule("VIS-007", "VIS-006", "VIS-009", "VIS-037", "VIS-038")
def test_the_image_program_runs_on_every_wire_and_nothing_is_fetched(
    chat: openai.OpenAI, first: BackgroundProvider, second: BackgroundProvider
) -> None:
    address = f"{second.base_url}/picture.png"
    content: list[Any] = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "text", "text": "What is this?"},
    ]
    first.answers(completion("A pixel."))
    assert chat.chat.completions.create(model="fx-oai", messages=[{"role": "user", "content": content}]).choices
    assert first.requests[-1].json["messages"][0]["content"] == content
    first.answers(anthropic_wire.message(anthropic_wire.text("A pixel.")))
    said = chat.chat.completions.create(model="fx-ant", messages=[{"role": "user", "content": content}])
    assert said.choices[0].message.content == "A pixel."
    inline, remote, _ = first.requests[-1].json["messages"][0]["content"]
    assert inline["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert remote["source"] == {"type": "url", "url": address}
    assert not second.requests


@pytest.mark.rule("VIS-015")
def test_the_messages_image_program_runs(messages: anthropic.Anthropic, first: BackgroundProvider) -> None:
    first.answers(completion("A pixel."))
    source: Any = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content: Any = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    said = messages.messages.create(model="fx-oai", max_tokens=50, messages=[{"role": "user", "content": content}])
    assert said.content[0].type == "text"
    sent = first.requests[-1].json["messages"][0]["content"][0]
    assert sent["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


@pytest.mark.rule("JSON-025", "JSON-002", "JSON-022", "JSON-026", "JSON-027")
def test_the_validate_and_retry_program_ends_with_a_valid_object(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    client = openai.OpenAI(
        base_url=f"{system.base_url}/v1",
        api_key=person.key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=False),
    )
    fenced = '```json\n{"city": 3}\n```'
    first.answers(completion(fenced), completion('{"city": "Jakarta"}'))
    schema: Any = {"type": "json_schema", "json_schema": {"name": "place", "schema": WEATHER}}
    turns: list[Any] = [{"role": "user", "content": "Where?"}]
    answers = []
    for _ in range(3):
        text = (
            client.chat.completions.create(model="fx-oai", messages=turns, response_format=schema)
            .choices[0]
            .message.content
        )
        answers.append(text)
        try:
            found = json.loads(text or "")
            break
        except ValueError as error:
            turns += [{"role": "assistant", "content": text}, {"role": "user", "content": f"Not JSON: {error}"}]
    assert answers == [fenced, '{"city": "Jakarta"}']
    assert found == {"city": "Jakarta"}
    rows = eventually(lambda: len(system.usage(person)) == 2 and system.usage(person))
    # Ten tokens in and two out, twice; asking for a format costs nothing by itself.
    assert [row["cost_micro_idr"] for row in rows] == [10 * 4_200 + 2 * 24_000] * 2


@pytest.mark.rule("KYARA-002", "KYARA-003", "KYARA-073")
def test_the_strict_dialect_serves_the_official_sdk(system: System, person: Person, first: BackgroundProvider) -> None:
    client = openai.OpenAI(
        base_url=f"{system.base_url}/kyara/v1",
        api_key=person.key,
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=False),
    )
    first.answers(completion("Hello", usage=(9, 3)))
    said = client.chat.completions.create(model="fx-oai", messages=[{"role": "user", "content": "Hi"}])
    assert said.id.startswith("gen-")
    assert said.choices[0].message.content == "Hello"
    assert "fx-oai" in {model.id for model in client.models.list()}


@pytest.mark.rule("INT-001", "INT-005", "INT-044", "INT-015")
def test_one_key_opens_all_three_formats(
    chat: openai.OpenAI, messages: anthropic.Anthropic, first: BackgroundProvider
) -> None:
    first.answers(completion("Hello"))
    asked: Any = [{"role": "user", "content": "Hi"}]
    assert chat.chat.completions.create(model="fx-oai", messages=asked).choices[0].message.content == "Hello"
    assert chat.responses.create(model="fx-oai", input="Hi").output_text == "Hello"
    block = messages.messages.create(model="fx-oai", max_tokens=50, messages=asked).content[0]
    assert block.type == "text" and block.text == "Hello"
