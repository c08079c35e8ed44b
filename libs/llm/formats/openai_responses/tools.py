"""Reads the tools of a Responses body and the choice among them (contract: Responses, Request; Function calling).

Called by the request parser.
"""

from typing import Any, Literal, cast

from msgspec import Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import FunctionTool, ToolChoice
from libs.llm.failures import BadRequest
from libs.llm.formats.body import NULL, decode_at

_SERVER_TOOL = "kenari:"
_MODES = frozenset({"auto", "none", "required"})


class _Kind(Struct, gc=False):
    # Read alone first: in a tool of a type nobody knows the other names may mean anything.
    type: str


class _Function(Struct, gc=False):
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    strict: bool | None = None


_decode_kind = Decoder(_Kind).decode
_decode_function = Decoder(_Function).decode


def tools(sent: list[Raw]) -> tuple[list[FunctionTool], int]:
    """The functions among the tools, and their characters; tools of other types are left out."""
    functions: list[FunctionTool] = []
    characters = 0
    for place, raw in enumerate(sent):
        path = f"tools[{place}]"
        kind = decode_at(path, _decode_kind, raw).type
        if kind.startswith(_SERVER_TOOL):
            raise BadRequest(f"`{path}`: server tools such as {_SERVER_TOOL}web_search cannot be used yet", path)
        if kind == "function":
            functions.append(_function(raw, path))
            characters += len(bytes(raw))
    return functions, characters


def _function(raw: Raw, path: str) -> FunctionTool:
    sent = decode_at(path, _decode_function, raw)
    if not sent.name:
        raise BadRequest(f"`{path}.name` is required: a function tool has its name beside its type", f"{path}.name")
    parameters = None if sent.parameters == NULL else sent.parameters
    if parameters is not None and not bytes(parameters).startswith(b"{"):
        raise BadRequest(f"`{path}.parameters` must be an object", f"{path}.parameters")
    return FunctionTool(name=sent.name, description=sent.description, parameters=parameters, strict=sent.strict)


def tool_choice(sent: Any, functions: list[FunctionTool]) -> ToolChoice | None:
    """The choice; None when none was sent, or nothing is left to choose from."""
    if sent is None:
        return None
    if isinstance(sent, str) and sent in _MODES:
        # Most providers refuse a choice without tools, and the client may have sent only tools that are dropped.
        return ToolChoice(cast(Literal["auto", "none", "required"], sent)) if functions else None
    if not isinstance(sent, dict) or sent.get("type") != "function":
        raise BadRequest(
            '`tool_choice` must be auto, none, required or {"type": "function", "name": ...}', "tool_choice"
        )
    name = sent.get("name")
    if not any(function.name == name for function in functions):
        raise BadRequest("`tool_choice.name` must be the name of a function in `tools`", "tool_choice.name")
    return ToolChoice("function", cast(str, name))
