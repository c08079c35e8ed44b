"""Checks of the suite that are left out, each with its reason: every run prints this table.
Used by tests.compat.suite, which hands the globs to the suite.
"""

from dataclasses import dataclass

from tests.compat.faces import ANTHROPIC, RESPONSES, Face


@dataclass(frozen=True, slots=True)
class Exclusion:
    """`checks` is a glob over `client/check`. Without `faces` it holds on all of them."""

    checks: str
    reason: str
    faces: tuple[Face, ...] = ()


_NO_EMBEDDINGS = "no embeddings endpoint yet"
_NO_RERANK = "no rerank endpoint yet"
_NO_IMAGES = "no image endpoints yet"
_NO_AUDIO = "no audio endpoints yet"
_NO_MCP = "no MCP server yet"
_UNSIGNED = "reasoning that a Chat client hands back has no signature, and Anthropic takes none without"
_UNSEALED = "reasoning goes back to a Responses provider only in its sealed form, and the scripted one seals none"
_NO_CONTENT_YET = "four frames of Responses hold no content yet: the cut is a failed attempt, told as 503"

TABLE = (
    Exclusion("*/*embeddings", _NO_EMBEDDINGS),
    Exclusion("cohere/*", _NO_RERANK),
    Exclusion("litellm/rerank", _NO_RERANK),
    Exclusion("*/images-*", _NO_IMAGES),
    Exclusion("*/audio-*", _NO_AUDIO),
    Exclusion("*/moderations", "no moderation endpoint yet"),
    Exclusion("mcp-py/*", _NO_MCP),
    Exclusion("mcp-node/*", _NO_MCP),
    Exclusion("claude-code/mcp-server", _NO_MCP),
    Exclusion("openai-py/rate-limited-key", "on paid models the account limit is told without Retry-After"),
    Exclusion("openai-*/chat-reasoning-handback", _UNSIGNED, (ANTHROPIC,)),
    Exclusion("opencode/chat-tool-loop-with-reasoning", _UNSIGNED, (ANTHROPIC,)),
    Exclusion("openai-*/chat-reasoning-handback", _UNSEALED, (RESPONSES,)),
    Exclusion("anthropic-py/thinking-stream-and-handback", _UNSEALED, (RESPONSES,)),
    Exclusion("opencode/*-tool-loop-with-reasoning", _UNSEALED, (RESPONSES,)),
    Exclusion(
        "claude-code/image-in-tool-result",
        "the scripted Responses provider overlooks pictures in outputs of calls",
        (RESPONSES,),
    ),
    Exclusion("contract/stream-interrupted-chat", _NO_CONTENT_YET, (RESPONSES,)),
    Exclusion("contract/stream-interrupted-responses", _NO_CONTENT_YET, (RESPONSES,)),
)


def on(face: Face) -> tuple[Exclusion, ...]:
    """What is left out on this face."""
    return tuple(exclusion for exclusion in TABLE if not exclusion.faces or face in exclusion.faces)


def text() -> str:
    """The table as printed, one line per exclusion."""
    rows = [(_where(exclusion), exclusion.checks, exclusion.reason) for exclusion in TABLE]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"excluded  {where:{first}}  {checks:{second}}  {reason}" for where, checks, reason in rows)


def _where(exclusion: Exclusion) -> str:
    return ",".join(face.name for face in exclusion.faces) or "all"
