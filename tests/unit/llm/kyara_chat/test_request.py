"""The strict dialect's request table: what it takes, what it refuses, and which member it names."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import ChatRequest, Effort, Message, ReasoningPart, ReasoningWish, Role, TextPart
from libs.llm.failures import BadRequest
from libs.llm.formats.kyara_chat import FORMAT
from libs.llm.providers.base import Target
from libs.llm.providers.openai_chat.request import provider_body

TARGET = Target(base_url="http://up/v1", model="up")
HI = {"role": "user", "content": "Hi"}


def parse(raw: bytes) -> ChatRequest:
    return FORMAT.parse(raw, lambda name: None)


def body(**members: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [HI]} | members).encode()


def turns(*messages: Any) -> bytes:
    return body(messages=[HI, *messages])


def sent(raw: bytes, *, stream: bool = False) -> Any:
    """What a Chat provider would get."""
    return json.loads(provider_body(parse(raw), TARGET, "max_tokens", 9, stream=stream))


def error_of(raw: bytes) -> tuple[int, str | None, str | None]:
    """Status, code and param of the refusal."""
    with pytest.raises(BadRequest) as caught:
        parse(raw)
    status, told = FORMAT.render_error(caught.value.api_error())
    error = json.loads(told)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error" and len(error["message"]) > 10
    return status, error["code"], error["param"]


REFUSED = [
    ("KYARA-005", json.dumps({"messages": [HI]}).encode(), "model"),
    ("KYARA-005", body(model=4), "model"),
    ("KYARA-005", body(model=""), "model"),
    ("KYARA-008", json.dumps({"model": "m"}).encode(), "messages"),
    ("KYARA-008", body(messages=[]), "messages"),
    ("KYARA-008", body(messages="x"), "messages"),
    ("KYARA-009", turns({"role": "user"}), "messages.1.content"),
    ("KYARA-009", turns({"content": "x"}), "messages.1.role"),
    ("KYARA-010", turns({"role": "tool", "content": "x"}), "messages.1.role"),
    ("KYARA-010", turns({"role": "function", "content": "x"}), "messages.1.role"),
    ("KYARA-011", turns({"role": "user", "content": [{"type": "text", "text": "x"}]}), "messages.1.content"),
    ("KYARA-011", turns({"role": "assistant", "content": None}), "messages.1.content"),
    ("KYARA-012", turns({"role": "user", "content": "x", "name": 4}), "messages.1.name"),
    ("KYARA-013", turns({"role": "user", "content": "x", "reasoning": "r"}), "messages.1.reasoning"),
    ("KYARA-013", turns({"role": "user", "content": "x", "reasoning_details": []}), "messages.1.reasoning_details"),
    ("KYARA-014", turns({"role": "user", "content": "x", "foo": 1}), "messages.1.foo"),
    ("KYARA-014", turns({"role": "assistant", "content": "x", "tool_calls": []}), "messages.1.tool_calls"),
    ("KYARA-015", body(temperature=2.1), "temperature"),
    ("KYARA-015", body(temperature=-1), "temperature"),
    ("KYARA-016", body(top_p=1.1), "top_p"),
    ("KYARA-017", body(top_k=1.5), "top_k"),
    ("KYARA-018", body(min_p="x"), "min_p"),
    ("KYARA-023", body(max_tokens=0), "max_tokens"),
    ("KYARA-024", body(max_completion_tokens=0), "max_completion_tokens"),
    ("KYARA-027", body(stream="yes"), "stream"),
    ("KYARA-029", body(reasoning={"effort": "x"}), "reasoning.effort"),
    ("KYARA-033", body(reasoning_effort="x"), "reasoning_effort"),
    ("KYARA-036", body(session_id="s" * 257), "session_id"),
    ("KYARA-036", body(session_id=4), "session_id"),
    ("KYARA-038", body(n=2), "n"),
    ("KYARA-038", body(n=0), "n"),
    ("KYARA-039", body(stop=4), "stop"),
    ("KYARA-042", body(top_logprobs=2), "top_logprobs"),
    ("KYARA-042", body(top_logprobs=2, logprobs=False), "top_logprobs"),
    ("KYARA-044", body(tools=[]), "tools"),
    ("KYARA-044", body(response_format={"type": "json_object"}), "response_format"),
    ("KYARA-076", b"[]", None),
    ("KYARA-076", b"null", None),
]


@pytest.mark.parametrize(
    ("raw", "param"),
    [pytest.param(raw, param, marks=pytest.mark.rule(rule, "KYARA-076"), id=f"{n}-{rule}")
     for n, (rule, raw, param) in enumerate(REFUSED)],
)  # fmt: skip
def test_refused_with_the_members_path(raw: bytes, param: str | None) -> None:
    assert error_of(raw) == (400, None, param)


@pytest.mark.rule("KYARA-075")
@pytest.mark.parametrize("raw", [b"", b"{bad", b"hello", b"\xff\xfe", body() + b"x"])
def test_what_is_no_json_has_a_code_of_its_own(raw: bytes) -> None:
    assert error_of(raw) == (400, "invalid_json", None)


def test_a_giant_name_is_not_quoted_in_full() -> None:
    status, code, param = error_of(body(**{"x" * 100_000: 1}))
    assert (status, code) == (400, None) and param is not None and len(param) <= 300


def test_deep_nesting_is_refused() -> None:
    assert error_of(body()[:-1] + b',"stream_options":' + b'{"a":' * 100_000)[0] == 400


@pytest.mark.rule(
    "KYARA-015", "KYARA-016", "KYARA-017", "KYARA-018", "KYARA-019", "KYARA-020", "KYARA-021", "KYARA-039",
    "KYARA-040", "KYARA-041", "KYARA-043",
)  # fmt: skip
def test_sampling_members_are_passed_on() -> None:
    members = {
        "temperature": 2, "top_p": 0.5, "top_k": 40, "min_p": 0.1, "presence_penalty": 0.2, "frequency_penalty": 0.3,
        "repetition_penalty": 1.1, "stop": ["a"], "seed": 7, "logprobs": True, "top_logprobs": 2, "user": "u", "n": 1,
    }  # fmt: skip
    assert members.items() <= sent(body(**members)).items()


@pytest.mark.rule("KYARA-012", "KYARA-013", "CHAT-030")
def test_turns_reach_the_model_whole() -> None:
    details = [{"type": "reasoning.text", "text": "r"}]
    answer = {"role": "assistant", "content": "a", "name": "bot", "reasoning": "r", "reasoning_details": details}
    messages = [{"role": "developer", "content": "a"}, {"role": "system", "content": "b"}, HI, answer]
    request = parse(body(messages=messages))
    assert request.system == "a\n\nb"
    assert request.messages[1] == Message(Role.ASSISTANT, [ReasoningPart("r"), TextPart("a")])
    assert sent(body(messages=messages))["messages"] == [{"role": "system", "content": "a\n\nb"}, HI, answer]


@pytest.mark.rule("KYARA-023", "KYARA-024", "KYARA-025")
@pytest.mark.parametrize(
    ("members", "limit"),
    [({}, 8_192), ({"max_tokens": 50}, 50), ({"max_completion_tokens": 70}, 70), ({"max_tokens": 10**12}, 2**31 - 1),
     ({"max_tokens": 50, "max_completion_tokens": 70}, 50)],
)  # fmt: skip
def test_the_output_limit(members: dict[str, int], limit: int) -> None:
    assert parse(body(**members)).max_tokens == limit


@pytest.mark.rule("KYARA-029", "KYARA-030", "KYARA-031", "KYARA-032", "KYARA-033", "KYARA-034")
@pytest.mark.parametrize(
    ("members", "wish"),
    [
        ({"reasoning_effort": "high"}, ReasoningWish(effort=Effort.HIGH)),
        ({"reasoning": {"effort": "minimal"}}, ReasoningWish(effort=Effort.MINIMAL)),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, ReasoningWish(effort=Effort.LOW)),
        (
            {"reasoning": {"enabled": True, "exclude": True}, "reasoning_effort": "high"},
            ReasoningWish(effort=Effort.HIGH, enabled=True, exclude=True),
        ),
        ({"reasoning": {"max_tokens": 2_000}}, ReasoningWish(budget=2_000)),
        ({"reasoning": {"enabled": False}}, ReasoningWish(enabled=False)),
    ],
)
def test_the_wish_about_reasoning(members: dict[str, Any], wish: ReasoningWish) -> None:
    assert parse(body(**members)).reasoning == wish


@pytest.mark.rule("KYARA-035", "KYARA-036", "KYARA-072")
def test_a_session_is_kept_from_the_model() -> None:
    raw = body(session_id="é" * 256)
    assert parse(raw).cache_key == "é" * 256
    assert "session_id" not in sent(raw) and "prompt_cache_key" not in sent(raw)
    assert parse(body()).cache_key is None


@pytest.mark.rule("KYARA-027", "KYARA-028")
@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}])
def test_a_stream_asks_for_usage(options: Any) -> None:
    raw = body(stream=True, stream_options=options)
    assert parse(raw).stream and not parse(body()).stream
    assert sent(raw, stream=True)["stream_options"]["include_usage"] is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]) | JSON, "content": st.text(max_size=8) | JSON},
    optional={"name": JSON, "reasoning": JSON, "reasoning_details": JSON, "x": JSON},
)
NAMES = (
    "temperature", "top_p", "top_k", "max_tokens", "stream", "stream_options", "reasoning", "reasoning_effort",
    "session_id", "n", "stop", "seed", "logprobs", "top_logprobs", "user", "tools",
)  # fmt: skip
BODY = st.fixed_dictionaries(
    {}, optional={"model": st.just("m") | JSON, "messages": st.lists(TURN, max_size=3), **dict.fromkeys(NAMES, JSON)}
)


@settings(max_examples=500, deadline=None)
@given(BODY | JSON)
def test_any_json_is_a_request_or_a_bad_request(value: Any) -> None:
    try:
        request = parse(json.dumps(value).encode())
    except BadRequest as error:
        assert FORMAT.render_error(error.api_error())[0] == 400
        return
    assert json.loads(provider_body(request, TARGET, "max_tokens", 9, stream=request.stream))["messages"]
