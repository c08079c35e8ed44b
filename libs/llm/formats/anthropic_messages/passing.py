"""Takes ignored blocks out of the members that a provider of this format gets; all else stays as it was sent.

Called by the reader of requests when there are such blocks: a provider would refuse them (contract: Messages).
"""

from collections.abc import Collection, Set

from msgspec import Raw
from msgspec.json import encode

from libs.llm.canonical import Role
from libs.llm.formats.anthropic_messages.blocks import PASSED_IN_RESULTS, READERS, is_own, result_content, source_of
from libs.llm.formats.anthropic_messages.conversation import ROLES
from libs.llm.formats.anthropic_messages.wire import Block, Turn
from libs.llm.formats.body import decode_list, decode_members

_SOURCES = {"image": ("base64", "url"), "document": ("base64", "url", "text")}
_IN_RESULTS = frozenset({"text", "image"}) | PASSED_IN_RESULTS


def without_ignored_turn_blocks(messages: Raw, turns: list[Turn], cut: Set[int]) -> Raw:
    """``messages`` anew; ``cut`` are the places of the turns that lose blocks."""
    sent = decode_list(messages)
    for place in cut:
        members = decode_members(sent[place])
        blocks = turns[place].content
        assert isinstance(blocks, list)
        members["content"] = _kept(members["content"], blocks, READERS[ROLES[turns[place].role]])
        sent[place] = Raw(encode(members))
    return Raw(encode(sent))


def without_ignored_system_blocks(system: Raw, blocks: list[Block]) -> Raw:
    """``system`` anew."""
    return _kept(system, blocks, READERS[Role.SYSTEM])


def _kept(content: Raw, blocks: list[Block], used: Collection[str]) -> Raw:
    """The used blocks as they were sent, the results of calls among them cut in the same way; "" when none is left."""
    kept = [
        _cut_result(raw, block) if block.type == "tool_result" else raw
        for raw, block in zip(decode_list(content), blocks, strict=True)
        if _is_used(block, used)
    ]
    return Raw(encode(kept or ""))


def _cut_result(raw: Raw, block: Block) -> Raw:
    inner = result_content(block)
    if all(_is_used(part, _IN_RESULTS) for part in inner):
        return raw
    members = decode_members(raw)
    members["content"] = _kept(members["content"], inner, _IN_RESULTS)
    return Raw(encode(members))


def _is_used(block: Block, used: Collection[str]) -> bool:
    if block.type not in used:
        return used is not _IN_RESULTS and used is not READERS[Role.SYSTEM] and is_own(block)
    # A document in a result is not read here, so its source may be of any type.
    sources = None if used is _IN_RESULTS and block.type == "document" else _SOURCES.get(block.type)
    return sources is None or source_of(block).type in sources
