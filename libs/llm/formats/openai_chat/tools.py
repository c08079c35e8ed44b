"""Reads the tools of a Chat completions body and what the model may do with them.

Called by ``request`` (contract: Function calling).
"""

from typing import Any, NoReturn

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

from libs.llm.canonical import FunctionTool, ToolChoice
from libs.llm.failures import BadRequest
from libs.llm.formats.body import NULL

_SERVER_TOOLS = "kenari:"


class _Function(Struct, gc=False):
    name: str = ""
    description: str | None = None
    parameters: Raw = NULL
    strict: bool | None = None


class _Tool(Struct, gc=False):
    type: str = "function"
    function: Raw = NULL


_decode_tool = Decoder(_Tool).decode
_decode_function = Decoder(_Function).decode


def read_tools(tools: list[Raw]) -> tuple[list[FunctionTool], list[Raw]]:
    """The functions, and the tools of other kinds as they were sent."""
    functions: list[FunctionTool] = []
    others: list[Raw] = []
    for place, raw in enumerate(tools):
        path = f"tools[{place}]"
        try:
            tool = _decode_tool(raw)
        except (DecodeError, RecursionError):
            _refuse("must be an object with a `type`", path)
        if tool.type.startswith(_SERVER_TOOLS):
            _refuse("names a server tool; this gateway runs none", f"{path}.type")
        if tool.type == "function" or tool.function != NULL:
            functions.append(_function(tool.function, f"{path}.function"))
        else:
            others.append(raw)
    return functions, others


def _function(raw: Raw, path: str) -> FunctionTool:
    try:
        function = _decode_function(raw)
    except (DecodeError, RecursionError):
        _refuse("must be an object with the `name` of a function", path)
    if not function.name:
        _refuse("must be a non-empty string", f"{path}.name")
    parameters = None if function.parameters == NULL else function.parameters
    if parameters is not None and not bytes(parameters).startswith(b"{"):
        _refuse("must be a JSON schema, an object", f"{path}.parameters")
    return FunctionTool(
        name=function.name, description=function.description, parameters=parameters, strict=function.strict
    )


def read_tool_choice(choice: Any) -> ToolChoice | None:
    """One of the four choices; None for every other shape, which acts as none at all. A function needs its name."""
    match choice:
        case "auto" | "none" | "required":
            return ToolChoice(choice)
        case {"type": "function", **rest}:
            function = rest.get("function")
            name = function.get("name") if isinstance(function, dict) else None
            if not (isinstance(name, str) and name):
                _refuse("must be a non-empty string", "tool_choice.function.name")
            return ToolChoice("function", name)
    return None


def _refuse(problem: str, field: str) -> NoReturn:
    raise BadRequest(f"`{field}` {problem}", field)
