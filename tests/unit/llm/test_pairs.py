"""Every provider format behind every client format: streams cut, broken or damaged anywhere, read by strict joiners."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.llm.canonical import Finish, StreamEvent, Usage
from libs.llm.failures import FailureKind, ProviderFailure
from libs.llm.formats import anthropic_messages, kyara_chat, openai_chat, openai_responses
from libs.llm.formats.base import ClientFormat
from libs.llm.identity import Identity
from libs.llm.providers import anthropic, gemini
from libs.llm.providers import openai_chat as chat_provider
from libs.llm.providers import openai_responses as responses_provider
from libs.llm.providers.replies import Decoder
from tests.support.anthropic_wire import PING, end, flat, start, text_block, thinking_block, tool_block
from tests.support.frames import Frame, frames
from tests.support.joined import Joined, join_chat
from tests.support.joined_messages import join_messages
from tests.support.joined_responses import join_responses
from tests.support.provider import DONE, comment, delta, finish, usage
from tests.unit.llm.gemini import chunks
from tests.unit.llm.openai_responses_provider import events as sse

IDENTITY = Identity("0198f0c0a0b07000800000000000abcd", "fx", 1)
WHY = ["Mengapa? ", "為什麼 \U0001f914"]
SAID = ["Selamat\u2028 ", 'ça "va"', " \\\n\U0001f468\u200d\U0001f469"]
KOTA, N = ['{"kota":"Yogya', 'karta"}'], ['{"n":', "[1,2]}"]
CALLS = [("c1", "cuaca", {"kota": "Yogyakarta"}), ("c2", "hitung", {"n": [1, 2]})]


@dataclass(frozen=True)
class Wire:
    """A provider format: what reads its streams, and one stream of it that says WHY, SAID and CALLS."""

    decoder: Callable[[], Decoder]
    stream: tuple[bytes, ...]

    @property
    def raw(self) -> bytes:
        return b"".join(self.stream)


def _piece(index: int, arguments: str, **opening: str) -> bytes:
    function = {"arguments": arguments} | ({"name": opening["name"]} if opening else {})
    call = {"index": index, "function": function} | ({"id": opening["id"], "type": "function"} if opening else {})
    return delta(tool_calls=[call])


_CHAT = (
    comment("hello"),
    delta("", role="assistant"),
    *(delta(reasoning_content=piece) for piece in WHY),
    *(delta(piece) for piece in SAID),
    # Pieces of both calls in turn.
    _piece(0, "", id="c1", name="cuaca"),
    _piece(0, KOTA[0]),
    _piece(1, N[0], id="c2", name="hitung"),
    _piece(0, KOTA[1]),
    _piece(1, N[1]),
    finish("tool_calls"),
    usage(10, 7),
    DONE,
)
_ANTHROPIC = flat(
    start(10),
    PING,
    thinking_block(0, *WHY),
    text_block(1, *SAID),
    PING,
    tool_block(2, "c1", "cuaca", *KOTA),
    tool_block(3, "c2", "hitung", *N),
    end("tool_use", 7),
)
_FIRST, _SECOND = sse.call(2, name="cuaca") | {"call_id": "c1"}, sse.call(3, name="hitung") | {"call_id": "c2"}
_RESPONSES = (
    sse.CREATED,
    sse.added(sse.reasoning()),
    *(sse.thought(piece) for piece in WHY),
    sse.ended(sse.reasoning("".join(WHY))),
    sse.added(sse.MESSAGE, 1),
    *(sse.text(piece, 1) for piece in SAID),
    sse.ended(sse.message({"type": "output_text", "text": "".join(SAID)}), 1),
    sse.added(_FIRST, 2),
    *(sse.arguments(piece, 2) for piece in KOTA),
    sse.ended(_FIRST | {"arguments": "".join(KOTA)}, 2),
    sse.added(_SECOND, 3),
    *(sse.arguments(piece, 3) for piece in N),
    sse.ended(_SECOND | {"arguments": "".join(N)}, 3),
    sse.closing(),
)
_GEMINI = (
    *(chunks.chunk(chunks.thought(piece)) for piece in WHY),
    *(chunks.chunk(chunks.text(piece)) for piece in SAID),
    chunks.chunk({"functionCall": {"id": "c1", "name": "cuaca", "args": CALLS[0][2]}, "thoughtSignature": "sig"}),
    chunks.last({"functionCall": {"id": "c2", "name": "hitung", "args": CALLS[1][2]}}),
)
WIRES = {
    "chat": Wire(lambda: chat_provider.stream.StreamDecoder(100), _CHAT),
    "anthropic": Wire(lambda: anthropic.stream.StreamDecoder(100), tuple(_ANTHROPIC)),
    "responses": Wire(lambda: responses_provider.stream.StreamDecoder("u", 100), _RESPONSES),
    "gemini": Wire(lambda: gemini.stream.StreamDecoder("u", 100), _GEMINI),
}


def join_kyara(raw: bytes) -> Joined:
    """The strict dialect has text only, a usage chunk of its own, and no [DONE] after an error."""
    told: list[Frame] = frames(raw)
    joined = Joined(told)
    if told[-1].data != "[DONE]":
        joined.error = told[-1].json["error"]
    for frame in told[:-1]:
        chunk = frame.json
        for choice in chunk["choices"]:
            assert not joined.finish
            joined.text += choice["delta"].get("content", "")
            joined.reasoning += choice["delta"].get("reasoning", "")
            joined.finish = choice["finish_reason"] or ""
        joined.usage = chunk.get("usage")
    assert bool(joined.finish and joined.usage) != (joined.error is not None)
    return joined


@dataclass(frozen=True)
class Client:
    """A client format, a request of it, and what reads its streams."""

    format: ClientFormat
    body: dict[str, Any]
    join: Callable[[bytes], Joined]


_TURNS = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
CLIENTS = {
    "chat": Client(openai_chat.FORMAT, _TURNS, join_chat),
    "messages": Client(anthropic_messages.FORMAT, _TURNS | {"max_tokens": 100}, join_messages),
    "responses": Client(openai_responses.FORMAT, {"model": "m", "stream": True, "input": "Hi"}, join_responses),
    "kyara": Client(kyara_chat.FORMAT, _TURNS, join_kyara),
}
REQUESTS = {
    name: client.format.parse(json.dumps(client.body).encode(), lambda _: None) for name, client in CLIENTS.items()
}

every_wire = pytest.mark.parametrize("wire", WIRES)
every_client = pytest.mark.parametrize("client", CLIENTS)


def batches(wire: str, pieces: Iterable[bytes]) -> tuple[list[list[StreamEvent]], ProviderFailure | None]:
    """What each read of a provider's stream brings, and how it fails; the body ends after the pieces."""
    decoder, found = WIRES[wire].decoder(), []
    for piece in [*pieces, b""]:
        if decoder.done or decoder.failure is not None:
            break
        events = decoder.feed(piece) if piece else decoder.end()
        if events:
            found.append(events)
    return found, decoder.failure


def written(client: str, read: tuple[list[list[StreamEvent]], ProviderFailure | None]) -> bytes:
    """What the edge sends a client of it."""
    told, failure = read
    writer = CLIENTS[client].format.writer(IDENTITY, REQUESTS[client])
    out = b""
    for events in told:
        last = events[-1]
        if isinstance(last, Finish):
            out += writer.write(events[:-1])
            out += writer.write([Finish(last.finish_reason, last.usage or Usage(1, 1))])
        else:
            out += writer.write(events)
    if failure is not None:
        out += writer.fail(failure.api_error(streaming=True))
    return out


@every_wire
@every_client
def test_a_stream_is_the_whole_answer(wire: str, client: str) -> None:
    joined = CLIENTS[client].join(written(client, batches(wire, WIRES[wire].stream)))
    assert (joined.reasoning, joined.text) == ("".join(WHY), "".join(SAID))
    assert joined.error is None
    if client != "kyara":
        assert [(call.id, call.name, json.loads(call.arguments)) for call in joined.calls] == CALLS


@every_wire
def test_cut_in_two_at_any_byte_a_stream_is_the_same_to_every_client(wire: str) -> None:
    raw = WIRES[wire].raw
    expected = {client: written(client, batches(wire, [raw])) for client in CLIENTS}
    for cut in range(1, len(raw)):
        read = batches(wire, [raw[:cut], raw[cut:]])
        for client in CLIENTS:
            assert written(client, read) == expected[client], f"{client}, cut at {cut}"


@every_wire
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_in_any_pieces_and_with_any_line_ends_a_stream_is_the_same_to_every_client(
    wire: str, data: st.DataObject
) -> None:
    raw = WIRES[wire].raw
    sent = raw.replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    size = data.draw(st.integers(1, 40))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1)))) if size > 20 else range(size, len(sent), size)
    read = batches(wire, [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)])
    for client in CLIENTS:
        assert written(client, read) == written(client, batches(wire, [raw]))


@every_wire
def test_broken_off_at_any_byte_a_stream_ends_in_the_error_of_every_client(wire: str) -> None:
    raw = WIRES[wire].raw
    seen: set[tuple[str, bytes]] = set()
    for cut in range(len(raw)):
        read = batches(wire, [raw[:cut]])
        failure = read[1]
        if failure is not None:
            assert failure.kind is FailureKind.INTERRUPTED, f"cut at {cut}: {failure}"
        for client, of in CLIENTS.items():
            out = written(client, read)
            if (client, out) not in seen:
                seen.add((client, out))
                joined = of.join(out)
                assert (joined.error is None) == (failure is None), f"{client}, cut at {cut}"
                assert "".join(SAID).startswith(joined.text)
                assert "".join(WHY).startswith(joined.reasoning)


def ends_once(wire: str, pieces: Iterable[bytes]) -> None:
    """Every client gets a stream in its format that ends, in an error if the provider's did."""
    read = batches(wire, pieces)
    for client, of in CLIENTS.items():
        out = written(client, read)
        assert all(frame.data == "[DONE]" or frame.json for frame in frames(out))
        try:
            joined = of.join(out)
        except json.JSONDecodeError:
            continue  # arguments came damaged, and go on as they came
        assert (joined.error is None) == (read[1] is None)


@every_wire
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_damaged_in_any_way_a_stream_ends_once_to_every_client(wire: str, data: st.DataObject) -> None:
    damaged = bytearray(WIRES[wire].raw)
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    ends_once(wire, [bytes(damaged)])


@every_wire
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_events_left_out_said_twice_or_in_another_order_end_once_to_every_client(
    wire: str, data: st.DataObject
) -> None:
    events = list(WIRES[wire].stream)
    for _ in range(data.draw(st.integers(1, 3))):
        place, other = (data.draw(st.integers(0, len(events) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["out", "twice", "swapped"])):
            case "out" if len(events) > 1:
                del events[place]
            case "twice":
                events.insert(other, events[place])
            case _:
                events[place], events[other] = events[other], events[place]
    ends_once(wire, events)
