"""Requests and targets in the hub's terms, for tests of provider formats."""

from typing import Any

from msgspec import Raw

from libs.llm.canonical import ChatRequest, FunctionTool, Message, Role, TextPart
from libs.llm.providers.base import Target

UPSTREAM = "prov:cred_1"
SCHEMA = Raw(b'{"type":"object","properties":{"n":{"type":"integer","minimum":1,"x-odd":null}},"$defs":{}}')
TOOL = FunctionTool(name="look", description="Look it up", parameters=SCHEMA)


def user(*parts: Any) -> Message:
    return Message(Role.USER, [TextPart(part) if isinstance(part, str) else part for part in parts])


def assistant(*parts: Any) -> Message:
    return Message(Role.ASSISTANT, [TextPart(part) if isinstance(part, str) else part for part in parts])


def tool(part: Any) -> Message:
    return Message(Role.TOOL, [part])


def system(text: str) -> Message:
    return Message(Role.SYSTEM, [TextPart(text)])


def asked(*messages: Message, **members: Any) -> ChatRequest:
    """A request with these turns; one short question without any."""
    told: dict[str, Any] = {"dialect": "openai_chat", "model": "m", "input_tokens": 1, "fields": {}}
    return ChatRequest(messages=list(messages) or [user("Hi")], **(told | members))


def target(**members: Any) -> Target:
    return Target(**({"base_url": "http://x", "model": "real", "upstream": UPSTREAM} | members))
