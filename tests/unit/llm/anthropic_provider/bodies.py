"""Bodies that an Anthropic-format provider gets, for the tests beside it."""

import json
from typing import Any

from libs.llm.canonical import ChatRequest
from libs.llm.formats import anthropic_messages
from libs.llm.providers.anthropic.request import provider_body
from libs.llm.providers.base import Abilities
from libs.llm.reasoning import ReasoningControl, gate
from tests.unit.llm.hub import target

ALL = ("low", "medium", "high")


def sent(request: ChatRequest, max_tokens: int = 8_000, *, stream: bool = False, **members: Any) -> Any:
    """What the provider receives; ``members`` are the target's and its abilities."""
    known = {name: members.pop(name) for name in Abilities.__struct_fields__ if name in members}
    return json.loads(
        provider_body(request, target(abilities=Abilities(**known), **members), max_tokens, stream=stream)
    )


def message_request(**members: Any) -> ChatRequest:
    """A Messages client's request, parsed."""
    body = {"model": "m", "max_tokens": 8_000, "messages": [{"role": "user", "content": "Hi"}]} | members
    return anthropic_messages.FORMAT.parse(json.dumps(body).encode(), lambda name: None)


def gated(request: ChatRequest, *options: str) -> ReasoningControl:
    """The client's wish on a model that reasons and lists these levels."""
    return gate(request.reasoning, True, options or ALL)
