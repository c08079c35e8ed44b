"""Writes the body a Gemini provider gets.

Called by the adapter; pure.
"""

import re
from typing import Any

from msgspec.json import encode

from libs.llm.canonical import ChatRequest, Effort, ToolChoice
from libs.llm.providers.base import Target
from libs.llm.providers.gemini.contents import contents
from libs.llm.reasoning import ReasoningControl, budget_of, fitting_budget
from libs.llm.system_prompt import system_prompt

_BY_BUDGET = re.compile(r"gemini-(1|2)[.\-]")
"""Models that take a thinking budget and no level, and ask for no proofs of earlier calls."""

_MOST_STOPS = 5
_LEVELS = {Effort.MINIMAL: "low", Effort.LOW: "low", Effort.MEDIUM: "medium"}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY", "function": "ANY"}
_LARGEST_BUDGET, _LARGEST_PRO_BUDGET = 24_576, 32_768
_SMALLEST_PRO_BUDGET = 128
_NOTHING = "."


def provider_body(request: ChatRequest, target: Target, max_tokens: int) -> bytes:
    """The JSON body for ``target``; whether it is a stream is said in the path."""
    by_budget = _BY_BUDGET.search(target.model) is not None
    turns, system = contents(request.messages, target.upstream, proofs=not by_budget), system_prompt(request)
    if not turns:
        # Nothing to answer is refused: the only text there is has to be it.
        turns, system = [{"role": "user", "parts": [{"text": system or _NOTHING}]}], ""
    body: dict[str, Any] = {"contents": turns}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    _put_tools(body, request)
    config = _generation(request, max_tokens)
    thinking = _thinking(target.reasoning, target.model, max_tokens, by_budget=by_budget)
    if thinking is not None:
        config["thinkingConfig"] = thinking
    # Beside functions the service refuses a JSON format.
    if request.output_format is not None and target.abilities.json_format and not request.tools:
        config["responseMimeType"] = "application/json"
        if request.output_format.schema is not None:
            config["responseJsonSchema"] = request.output_format.schema
    body["generationConfig"] = config
    return encode(body)


def _put_tools(body: dict[str, Any], request: ChatRequest) -> None:
    if not request.tools:
        return
    declarations: list[dict[str, Any]] = []
    for tool in request.tools:
        members = {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
        declarations.append({name: value for name, value in members.items() if value is not None})
    body["tools"] = [{"functionDeclarations": declarations}]
    if request.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": _calling(request.tool_choice)}


def _calling(choice: ToolChoice) -> dict[str, Any]:
    config: dict[str, Any] = {"mode": _MODES[choice.mode]}
    if choice.mode == "function":
        config["allowedFunctionNames"] = [choice.name]
    return config


def _generation(request: ChatRequest, max_tokens: int) -> dict[str, Any]:
    chosen = {
        "maxOutputTokens": max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "topK": request.top_k,
        "stopSequences": [stop for stop in request.stop if stop][:_MOST_STOPS] or None,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _thinking(control: ReasoningControl, model: str, max_tokens: int, *, by_budget: bool) -> dict[str, Any] | None:
    if control.state == "as_is" or (control.state == "off" and control.off_softly):
        return None
    pro = "pro" in model
    if control.state == "off":
        # What cannot be turned off gets the least there is.
        if by_budget:
            return {"thinkingBudget": _SMALLEST_PRO_BUDGET if pro else 0}
        return {"thinkingLevel": "low" if pro else "minimal"}
    thinking: dict[str, Any] = {"includeThoughts": True}
    if not by_budget:
        if control.effort is not None:
            thinking["thinkingLevel"] = _LEVELS.get(control.effort, "high")
        return thinking
    budget = _budget(control, max_tokens)
    if budget is not None:
        thinking["thinkingBudget"] = min(budget, _LARGEST_PRO_BUDGET if pro else _LARGEST_BUDGET)
    return thinking


def _budget(control: ReasoningControl, max_tokens: int) -> int | None:
    if control.budget is not None:
        return fitting_budget(control.budget, max_tokens)
    return budget_of(control.effort, max_tokens) if control.effort is not None else None
