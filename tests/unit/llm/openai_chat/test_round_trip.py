"""Nothing is lost between the Chat format and the hub: a body built from the hub reads back as the same request."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from libs.llm.formats.openai_chat.request import parse
from libs.llm.providers.base import Abilities, Target
from libs.llm.providers.openai_chat.request import provider_body

TARGET = Target(base_url="http://up/v1", model="m", abilities=Abilities(json_format=True))

TEXT = st.text(min_size=1, max_size=8)
TEXT_PART = st.builds(lambda text: {"type": "text", "text": text}, TEXT)
DATA = st.sampled_from(["AA==", "/9j/", ""])
URLS = st.builds("https://x/{}".format, st.integers(0, 9)) | st.builds("data:image/png;base64,{}".format, DATA)
PICTURE = st.builds(
    lambda url, more: {"type": "image_url", "image_url": {"url": url} | more},
    URLS,
    st.sampled_from([{}, {"detail": "low"}]),
)
FILE = st.builds(
    lambda name, data: {"type": "file", "file": {"filename": name, "file_data": f"data:application/pdf;base64,{data}"}},
    TEXT,
    DATA.filter(bool),
)
USER = st.builds(
    lambda content: {"role": "user", "content": content},
    TEXT | st.lists(TEXT_PART | PICTURE | FILE, min_size=1, max_size=4),
)
LATER = st.builds(lambda text: {"role": "system", "content": text}, TEXT)
ARGUMENTS = st.dictionaries(TEXT, st.integers() | TEXT, max_size=2).map(json.dumps)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """System text, then rounds of user, assistant with calls, and their results in order."""
    turns = [{"role": "system", "content": draw(TEXT)}] if draw(st.booleans()) else []
    for place in range(draw(st.integers(1, 3))):
        turns.append(draw(USER))
        if draw(st.booleans()):
            turns.append(draw(LATER))
        answer: dict[str, Any] = {"role": "assistant", "content": draw(TEXT)}
        if draw(st.booleans()):
            answer["reasoning_content"] = draw(TEXT)
        ids = [f"c{place}_{number}" for number in range(draw(st.integers(0, 2)))]
        if ids:
            answer["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": "f", "arguments": draw(ARGUMENTS)}} for id in ids
            ]
        turns.append(answer)
        turns += [{"role": "tool", "tool_call_id": id, "content": draw(TEXT)} for id in ids]
    return turns


FUNCTION = st.fixed_dictionaries(
    {"name": TEXT},
    optional={"description": TEXT, "parameters": st.just({"type": "object"}), "strict": st.booleans()},
)
BODY = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": conversations()},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "stop": st.lists(TEXT, min_size=1, max_size=2),
        "user": TEXT,
        "tools": st.lists(
            st.builds(lambda one: {"type": "function", "function": one}, FUNCTION), min_size=1, max_size=2
        ),
    },
)


@settings(max_examples=300, deadline=None)
@given(BODY)
def test_a_body_built_from_the_hub_reads_back_as_the_same_request(body: dict[str, Any]) -> None:
    request = parse(json.dumps(body).encode())
    elsewhere = replace(request, dialect="anthropic_messages", fields={})
    again = parse(provider_body(elsewhere, TARGET, "max_tokens", 9, stream=False))
    for name in ("system", "messages", "tools", "temperature", "top_p", "stop", "user", "images", "remote_images"):
        assert getattr(again, name) == getattr(request, name), name
