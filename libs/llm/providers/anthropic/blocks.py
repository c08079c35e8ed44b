"""Follows the content blocks of one stream: starts, pieces and stops in, the hub's events out.

Called by the stream decoder beside it, for everything its quick path does not know.
"""

from typing import Literal, TypeAlias

from msgspec import Raw, Struct
from msgspec.json import encode

from libs.llm.canonical import (
    CitationDelta,
    OpaqueDelta,
    OpaqueStart,
    ReasoningDelta,
    ReasoningEnd,
    RedactedReasoning,
    StreamEvent,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallStart,
)
from libs.llm.providers.anthropic.wire import DIALECT, NULL, arguments_of, own_json
from libs.llm.providers.replies import junk

Kind: TypeAlias = Literal["text", "thinking", "call", "opaque", "skipped"]


class WireBlock(Struct, gc=False):
    """The ``content_block`` of a start."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = NULL


class WireDelta(Struct, gc=False):
    """The ``delta`` of a piece, or of the message at its end."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


_UNREAD = WireBlock()
CITATION = "citations_delta"


class Block:
    """An open block. ``call`` is the number of a call among the calls; ``given`` its input when sent whole."""

    __slots__ = ("call", "given", "kind", "said", "signature")

    def __init__(self, kind: Kind, call: int = 0, given: str = "") -> None:
        self.kind = kind
        self.call = call
        self.given = given
        self.said = False
        self.signature = ""


class Blocks:
    """The blocks of one message by their index. ``said``: text or a call was among them."""

    def __init__(self) -> None:
        self.calls = 0
        self.said = False
        self._open: dict[int, Block] = {}
        self._opaque: Block | None = None  # the newest, which alone gets pieces
        self._told_text = False

    def start(self, index: int, wire: WireBlock, events: list[StreamEvent]) -> None:
        """A block opens; reasoning still open is over then, whatever the provider left out."""
        for place in [place for place, block in self._open.items() if block.kind == "thinking" or place == index]:
            self.stop(place, events)
        match wire.type:
            case "text":
                block = Block("text")
                if self._told_text:
                    events.append(TextEnd())
                    self._told_text = False
            case "thinking":
                block = Block("thinking")
                block.signature = wire.signature or ""
            case "tool_use":
                block = self._call(wire, events)
            case "redacted_thinking":
                block = Block("skipped")
                if wire.data:
                    events.append(RedactedReasoning(wire.data))
            case _:
                block = Block("skipped")
        self._open[index] = block
        early = {"text": wire.text, "thinking": wire.thinking}.get(block.kind)
        if early:
            self.add(block, early, encode(early), events)

    def start_opaque(self, index: int, raw: Raw, events: list[StreamEvent]) -> None:
        """A block opens of a kind that only clients of the same format read; ``raw`` is its ``content_block``."""
        self.start(index, _UNREAD, events)
        own = own_json(raw)
        if own is not None:
            self._opaque = self._open[index] = Block("opaque")
            events.append(OpaqueStart(DIALECT, bytes(own)))

    def own_piece(self, index: int, kind: str | None, raw: Raw, events: list[StreamEvent]) -> None:
        """A piece that only clients of the same format read; ``raw`` is its ``delta``."""
        block = self._open.get(index)
        if block is None or (own := own_json(raw)) is None:
            return
        if block.kind == "opaque" and block is self._opaque:
            events.append(OpaqueDelta(bytes(own)))
        elif block.kind == "text" and kind == CITATION:
            self._told_text = True
            events.append(CitationDelta(DIALECT, bytes(own)))

    def is_opaque(self, index: int) -> bool:
        """Whether the pieces of that block go on as they are."""
        block = self._open.get(index)
        return block is not None and block.kind == "opaque"

    def piece(self, index: int, delta: WireDelta, events: list[StreamEvent]) -> tuple[Block, str] | None:
        """A piece of a block. Says which text it added to which block, None when it was none of these."""
        block = self._open.get(index)
        if block is None:
            block = self._open[index] = self._unannounced(delta)
        match delta.type:
            case "text_delta" if block.kind == "text":
                text = delta.text
            case "thinking_delta" if block.kind == "thinking":
                text = delta.thinking
            case "input_json_delta" if block.kind == "call":
                text = delta.partial_json
            case "signature_delta" if block.kind == "thinking":
                block.signature += delta.signature or ""
                return None
            case _:
                return None
        if not text:
            return None
        self.add(block, text, encode(text), events)
        return block, text

    def add(self, block: Block, text: str, json: bytes, events: list[StreamEvent]) -> None:
        """Give out a piece; ``json`` is ``text`` as JSON."""
        block.said = True
        if block.kind == "text":
            self.said = self._told_text = True
            events.append(TextDelta(text, json))
        elif block.kind == "thinking":
            events.append(ReasoningDelta(text, json))
        else:
            events.append(ToolCallDelta(block.call, text))

    def stop(self, index: int, events: list[StreamEvent]) -> None:
        """A block closes; nothing for an unknown one."""
        block = self._open.pop(index, None)
        if block is None:
            return
        if block.kind == "call" and not block.said:
            # A call without parameters still needs arguments that are JSON.
            events.append(ToolCallDelta(block.call, block.given or "{}"))
        elif block.kind == "thinking" and (block.said or block.signature):
            events.append(ReasoningEnd(block.signature))

    def stop_all(self, events: list[StreamEvent]) -> None:
        """The message ends, and with it what is still open."""
        for index in list(self._open):
            self.stop(index, events)

    def _call(self, wire: WireBlock, events: list[StreamEvent]) -> Block:
        if not wire.name:
            raise junk("tool call without a name")
        block = Block("call", self.calls, arguments_of(wire.input))
        self.calls += 1
        self.said = True
        events.append(ToolCallStart(block.call, wire.id or f"call_{block.call}", wire.name))
        return block

    def _unannounced(self, delta: WireDelta) -> Block:
        """Some servers never open their one block of text or reasoning."""
        match delta.type:
            case "text_delta":
                return Block("text")
            case "thinking_delta" | "signature_delta":
                return Block("thinking")
            case "input_json_delta":
                raise junk("arguments of no known call")
            case _:
                return Block("skipped")
