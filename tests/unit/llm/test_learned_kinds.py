"""What a pattern recognises stays of its own kind, also when a later piece of another kind could not be learned."""

from libs.llm.canonical import ReasoningDelta, TextDelta
from libs.llm.providers.anthropic.stream import StreamDecoder as AnthropicDecoder
from libs.llm.providers.openai_chat.stream import StreamDecoder as OpenAIDecoder
from tests.support.anthropic_wire import start, text_block, thinking_block
from tests.support.provider import delta

# Escaped by the provider but not by us: its chunk does not show the bytes that a pattern would be made of.
STRANGE = "é"


def test_text_after_reasoning_that_could_not_be_learned_is_text() -> None:
    decoder = OpenAIDecoder(50)
    told = [
        delta("", role="assistant"),
        delta("one"),
        delta(reasoning_content=STRANGE),
        delta("two"),
        delta(reasoning_content="three"),
        delta("four"),
    ]
    events = [event for piece in told for event in decoder.feed(piece)]
    assert [(type(event), event.text) for event in events if isinstance(event, TextDelta | ReasoningDelta)] == [
        (TextDelta, "one"),
        (ReasoningDelta, STRANGE),
        (TextDelta, "two"),
        (ReasoningDelta, "three"),
        (TextDelta, "four"),
    ]


def test_pieces_of_two_open_blocks_stay_in_their_blocks() -> None:
    decoder = AnthropicDecoder(50)
    thinking, text = thinking_block(0, "one", STRANGE, "five"), text_block(1, "two", STRANGE, "four")
    told = [start(1), text[0], text[1], thinking[2], thinking[1], text[2], thinking[3], text[3]]
    events = [event for piece in told for event in decoder.feed(piece)]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == f"two{STRANGE}four"
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == f"{STRANGE}onefive"
