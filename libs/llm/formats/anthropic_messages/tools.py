"""Reads ``tools`` and ``tool_choice`` (contract: Function calling, Control when the model calls a tool).

Called by the reader of requests.
"""

from msgspec import Raw

from libs.llm.canonical import FunctionTool, ToolChoice
from libs.llm.failures import BadRequest
from libs.llm.formats.anthropic_messages.wire import Choice, Tool, is_object
from libs.llm.formats.body import NULL, decode_list

_FUNCTION_TYPES = (None, "custom")
_SERVER_TOOL = "kenari:"
_CHOICES = {"auto": ToolChoice("auto"), "any": ToolChoice("required"), "none": ToolChoice("none")}


def read_tools(tools: list[Tool], sent: Raw) -> tuple[list[FunctionTool], list[Raw]]:
    """The functions, and the tools that only a provider of this format knows, as they were ``sent``."""
    functions: list[FunctionTool] = []
    elsewhere: list[int] = []
    for place, tool in enumerate(tools):
        if tool.type in _FUNCTION_TYPES:
            functions.append(_function(tool, f"tools[{place}]"))
        elif tool.type is not None and tool.type.startswith(_SERVER_TOOL):
            path = f"tools[{place}].type"
            raise BadRequest(
                f"`{path}`: tools that the gateway runs itself (`{_SERVER_TOOL}...`) are not offered", path
            )
        else:
            elsewhere.append(place)
    if not elsewhere:
        return functions, []
    raw = decode_list(sent)
    return functions, [raw[place] for place in elsewhere]


def read_choice(choice: Choice | None) -> ToolChoice | None:
    """The choice; ``disable_parallel_tool_use`` and the like beside it are for a provider of this format."""
    if choice is None:
        return None
    if choice.type != "tool":
        known = _CHOICES.get(choice.type)
        if known is None:
            raise BadRequest("`tool_choice.type` must be auto, any, none or tool", "tool_choice.type")
        return known
    if not isinstance(choice.name, str) or not choice.name:
        raise BadRequest("`tool_choice.name` must be a non-empty string", "tool_choice.name")
    return ToolChoice("function", choice.name)


def _function(tool: Tool, path: str) -> FunctionTool:
    if not isinstance(tool.name, str) or not tool.name:
        raise BadRequest(f"`{path}.name` must be a non-empty string", f"{path}.name")
    if tool.description is not None and not isinstance(tool.description, str):
        raise BadRequest(f"`{path}.description` must be a string", f"{path}.description")
    if tool.strict is not None and not isinstance(tool.strict, bool):
        raise BadRequest(f"`{path}.strict` must be true or false", f"{path}.strict")
    if tool.input_schema != NULL and not is_object(tool.input_schema):
        raise BadRequest(f"`{path}.input_schema` must be an object", f"{path}.input_schema")
    return FunctionTool(
        name=tool.name,
        description=tool.description,
        parameters=None if tool.input_schema == NULL else tool.input_schema,
        strict=tool.strict,
    )
