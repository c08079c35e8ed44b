"""One answer in two wires, cut and written in every way a stream may be, is the same message in all client formats."""

from collections.abc import Callable

import pytest

from tests.cases.caller import FORMATS, Caller
from tests.support.anthropic_wire import PING, end, flat, start, text_block, thinking_block, tool_block
from tests.support.background import BackgroundProvider
from tests.support.provider import DONE, delta, finish, in_pieces, stream, usage

WHY = "Mengapa? 為什麼 \U0001f914"
# A line separator of Unicode that ends no line of a stream, characters of two to four bytes, what JSON escapes.
SAID = ["Selamat pagi\u2028", 'ca va "très" bien \\ \n\t', "\u2029日本 \U0001f468\u200d\U0001f469 \x85", "\x00 end"]
ARGUMENTS = ['{"kota":"Yogya', 'karta \u2028","n":[1,', '2],"emoji":"\U0001f600"}']


def openai() -> bytes:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "cuaca", "arguments": ""}}
    return b"".join(
        [
            delta("", role="assistant"),
            *(delta(reasoning_content=piece) for piece in (WHY[:9], WHY[9:])),
            *(delta(piece) for piece in SAID),
            delta(tool_calls=[call]),
            *(delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in ARGUMENTS),
            finish("tool_calls"),
            usage(10, 7),
            DONE,
        ]
    )


def anthropic() -> bytes:
    return b"".join(
        flat(
            start(10),
            PING,
            thinking_block(0, WHY[:9], WHY[9:]),
            text_block(1, *SAID),
            PING,
            tool_block(2, "c1", "cuaca", *ARGUMENTS),
            end("tool_use", 7),
        )
    )


WIRES = {"fx-oai": openai, "fx-ant": anthropic}


def unescaped(raw: bytes) -> bytes:
    """The same with its characters as UTF-8 instead of escapes, but for the control characters that JSON forbids."""
    text = raw.decode()
    for character in sorted(set(WHY + "".join(SAID) + "".join(ARGUMENTS))):
        if ord(character) > 0xFFFF:
            high, low = divmod(ord(character) - 0x10000, 0x400)
            text = text.replace(f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}", character)
        elif ord(character) > 0x7E:
            text = text.replace(f"\\u{ord(character):04x}", character)
    return text.encode()


def commented(raw: bytes) -> bytes:
    """Comments between events and inside them, and members of an event nobody needs."""
    return raw.replace(b"data: ", b": vendor\nid: 7\nretry: 1\ndata: ").replace(b"\n\n", b"\n:\n\n: vendor\n\n")


WAYS: dict[str, Callable[[bytes], list[bytes]]] = {
    "as-it-is": lambda raw: [raw],
    "event-wise": lambda raw: [event + b"\n\n" for event in raw.split(b"\n\n") if event],
    "byte-wise": lambda raw: in_pieces(unescaped(raw), 1),
    "split-characters": lambda raw: in_pieces(unescaped(raw), 7),
    "crlf": lambda raw: in_pieces(raw.replace(b"\n", b"\r\n"), 11),
    "crlf-byte-wise": lambda raw: in_pieces(unescaped(raw).replace(b"\n", b"\r\n"), 1),
    "cr": lambda raw: in_pieces(raw.replace(b"\n", b"\r"), 11),
    "comments": lambda raw: in_pieces(commented(raw), 100),
    "several-data-lines": lambda raw: [raw.replace(b"data: {", b"data: {\ndata: ").replace(b", ", b",\ndata:  ", 3)],
    "no-space-after-colon": lambda raw: in_pieces(raw.replace(b"data: ", b"data:").replace(b"event: ", b"event:"), 64),
    "byte-order-mark": lambda raw: [b"\xef\xbb\xbf" + raw],
}


@pytest.mark.rule("STR-014", "STR-015", "STR-022", "STR-061", "STR-062", "STR-063", "STR-065", "STR-076")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("model", WIRES)
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_the_same_however_its_bytes_come(
    caller: Caller, p1: BackgroundProvider, way: str, model: str, format: str
) -> None:
    p1.answers(stream(*WAYS[way](WIRES[model]())))
    joined = caller.joined(format, model)
    assert joined.reasoning == WHY
    assert joined.text == "".join(SAID)
    assert [(call.id, call.name, call.arguments) for call in joined.calls] == [("c1", "cuaca", "".join(ARGUMENTS))]
    assert joined.finish == {"chat": "tool_calls", "messages": "tool_use", "responses": "completed"}[format]
    assert joined.usage is not None
    counts = ("prompt_tokens", "completion_tokens") if format == "chat" else ("input_tokens", "output_tokens")
    assert [joined.usage[name] for name in counts] == [10, 7]
    assert joined.model == model
    if joined.blocks:
        kinds = {"messages": ["thinking", "text", "tool_use"], "responses": ["reasoning", "message", "function_call"]}
        assert [block["type"] for block in joined.blocks] == kinds[format]
