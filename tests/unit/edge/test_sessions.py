"""Which conversation a request belongs to."""

import pytest

from libs.llm.canonical import ChatRequest, ImagePart, Message, Role, TextPart
from services.edge.sessions import session_of


def request(*texts: str, system: str = "", key: str | None = None) -> ChatRequest:
    messages = [Message(Role.USER, [TextPart(text)]) for text in texts]
    return ChatRequest(
        dialect="openai_chat", model="m", messages=messages, input_tokens=1, fields={}, system=system, cache_key=key
    )


@pytest.mark.rule("CACHE-030", "CACHE-031")
def test_a_conversation_is_known_by_what_it_begins_with() -> None:
    begun = session_of(request("Hi", system="S"), derived=True)
    assert session_of(request("Hi", "more", system="S"), derived=True) == begun
    assert session_of(request("Hi", system="T"), derived=True) != begun
    assert session_of(request("Ho", system="S"), derived=True) != begun


@pytest.mark.rule("CACHE-025", "CACHE-033")
def test_the_clients_own_key_wins() -> None:
    one = session_of(request("Hi", key="a"), derived=True)
    assert session_of(request("Other", key="a"), derived=True) == one
    assert session_of(request("Hi", key="b"), derived=True) != one
    assert session_of(request("Hi"), derived=True) != one


@pytest.mark.rule("CACHE-032")
def test_a_first_turn_without_text_gives_no_key() -> None:
    picture = Message(Role.USER, [ImagePart(media_type="image/png", data="AA==")])
    asked = ChatRequest(dialect="openai_chat", model="m", messages=[picture], input_tokens=1, fields={}, system="S")
    assert session_of(asked, derived=True) == ""


@pytest.mark.rule("KYARA-037")
def test_where_nothing_is_derived_the_account_is_the_session() -> None:
    assert session_of(request("Hi", system="S"), derived=False) == ""


def test_a_lone_surrogate_is_no_obstacle() -> None:
    assert session_of(request("\ud800"), derived=True)
