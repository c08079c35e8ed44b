"""What real providers refuse a request for, as functions that say what is wrong with a body.
Used by tests that send conversations of one format to providers of another.
"""

import re
from typing import Any

_OPENAI = frozenset(
    {
        *("model", "messages", "max_tokens", "max_completion_tokens", "stream", "stream_options", "temperature"),
        *("top_p", "stop", "user", "tools", "tool_choice", "response_format", "reasoning_effort", "prompt_cache_key"),
    }
)
_ANTHROPIC = frozenset(
    {
        *("model", "messages", "max_tokens", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences"),
        *("tools", "tool_choice", "thinking", "metadata", "output_config"),
    }
)
_PROOFS = ("thinking", "redacted_thinking")
_CALL_ID = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Fault(Exception):
    """A provider would answer 400 and say this."""


def _must(holds: object, fault: str) -> None:
    if not holds:
        raise Fault(fault)


def openai_takes(body: Any) -> None:
    """Raise Fault for a Chat completions body that OpenAI answers with 400."""
    _must(set(body) <= _OPENAI, f"unknown members {set(body) - _OPENAI}")
    _must(body["messages"], "no messages")
    _must("tool_choice" not in body or body.get("tools"), "a tool_choice without tools")
    waiting: list[str] = []
    for turn in body["messages"]:
        if turn["role"] == "tool":
            _must(turn["tool_call_id"] in waiting, f"a result of no call right before: {turn['tool_call_id']}")
            _must(isinstance(turn["content"], str), "a result is text")
            waiting.remove(turn["tool_call_id"])
            continue
        _must(not waiting, f"calls without results: {waiting}")
        waiting = _openai_turn(turn)
    _must(not waiting, f"calls without results at the end: {waiting}")


def _openai_turn(turn: Any) -> list[str]:
    """The ids of the calls a turn makes."""
    content = turn["content"]
    match turn["role"]:
        case "user":
            _must(isinstance(content, str) or content, "a user says nothing")
            if isinstance(content, list):
                _must(all(part["type"] in ("text", "image_url", "file") for part in content), "an unknown part")
        case "system" | "developer":
            _must(isinstance(content, str), "instructions are text")
        case "assistant":
            _must(isinstance(content, str) or turn.get("tool_calls"), "an answer without content or calls")
            calls = turn.get("tool_calls", [])
            _must(calls or "tool_calls" not in turn, "an empty list of calls")
            _must(all(isinstance(call["function"]["arguments"], str) for call in calls), "arguments are text")
            return [call["id"] for call in calls]
        case other:
            raise Fault(f"role {other}")
    return []


def responses_takes(body: Any) -> None:
    """Raise Fault for a Responses body that OpenAI answers with 400."""
    items = body["input"]
    _must(items, "no input")
    called = [item["call_id"] for item in items if item["type"] == "function_call"]
    given = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    _must(sorted(called) == sorted(given), f"outputs of {given} for calls {called}")
    open_calls: set[str] = set()
    for item in items:
        match item["type"]:
            case "function_call":
                open_calls.add(item["call_id"])
            case "function_call_output":
                _must(item["call_id"] in open_calls, "an output before its call")
            case "message":
                _must(item["content"], "a message without content")
            case "reasoning":
                _must(item.get("encrypted_content"), "reasoning that is stored nowhere")
            case other:
                raise Fault(f"an item of type {other}")


def gemini_takes(body: Any) -> None:
    """Raise Fault for a generateContent body that Gemini answers with 400."""
    calls = 0
    _must(body["contents"], "no contents")
    for place, turn in enumerate(body["contents"]):
        _must(turn["role"] in ("user", "model"), f"role {turn['role']}")
        _must(turn["parts"], "a turn without parts")
        _must(place or turn["role"] == "user", "the first turn is not the user's")
        results = sum("functionResponse" in part for part in turn["parts"])
        _must(results == calls, f"{results} results for {calls} calls")
        calls = sum("functionCall" in part for part in turn["parts"])
        _must(turn["role"] == "model" or not calls, "a call in a user's turn")
        _must(all(part.get("text", "x") for part in turn["parts"]), "an empty text")
    _must(not calls, "calls without results at the end")


def anthropic_takes(body: Any) -> None:
    """Raise Fault for a Messages body that Anthropic answers with 400."""
    _must(set(body) <= _ANTHROPIC, f"unknown members {set(body) - _ANTHROPIC}")
    _must("system" not in body or body["system"], "an empty system prompt")
    _must(0 <= body.get("temperature", 1) <= 1, "temperature above 1")
    _must(all(sequence.strip() for sequence in body.get("stop_sequences", [])), "a blank stop sequence")
    _must(str(body).count("'cache_control'") <= 4, "more than four marks")
    turns = body["messages"]
    _must(turns and turns[0]["role"] == "user", "the first turn is not the user's")
    calls: list[str] = []
    ids: set[str] = set()
    for turn in turns:
        blocks = _blocks(turn)
        if turn["role"] == "user":
            _user_turn(blocks, calls)
            calls = []
        else:
            _must(not calls, f"calls without results: {calls}")
            calls = _assistant_turn(blocks, ids)
    _must(not calls, f"calls without results at the end: {calls}")
    last = _blocks(turns[-1])[-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text":
        _must(last["text"] == last["text"].rstrip(), "an answer begun that ends in blanks")
    _must(not ids or body.get("tools"), "calls without tools")
    _thinking(body)


def _blocks(turn: Any) -> list[dict[str, Any]]:
    content = turn["content"]
    _must(turn["role"] in ("user", "assistant"), f"role {turn['role']}")
    _must(content, "an empty turn")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _user_turn(blocks: list[dict[str, Any]], calls: list[str]) -> None:
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    _must(sorted(results) == sorted(calls), f"results of {results} for calls {calls}")
    _must(all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results come first")
    for block in blocks:
        if block["type"] == "tool_result":
            content = block.get("content", "")
            for inner in content if isinstance(content, list) else []:
                _simple(inner)
        else:
            _simple(block)


def _simple(block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            _must(block["text"].strip(), "a text of blanks")
        case "image":
            source = block["source"]
            _must(source["type"] in ("base64", "url"), "a picture of no known source")
        case "document":
            pass
        case other:
            raise Fault(f"{other} in a user's turn")


def _assistant_turn(blocks: list[dict[str, Any]], ids: set[str]) -> list[str]:
    calls = []
    for place, block in enumerate(blocks):
        match block["type"]:
            case "text":
                _must(block["text"].strip(), "a text of blanks")
            case "tool_use":
                _must(_CALL_ID.fullmatch(block["id"]), f"id {block['id']!r}")
                _must(block["id"] not in ids, "an id twice")
                _must(isinstance(block["input"], dict), "input is an object")
                ids.add(block["id"])
                calls.append(block["id"])
            case kind if kind in _PROOFS:
                _must(block.get("signature") or block.get("data"), "thinking without a proof")
                _must("cache_control" not in block, "a mark on thinking")
                _must(place == 0 or blocks[place - 1]["type"] in _PROOFS, "thinking after something else")
            case other:
                raise Fault(f"{other} in an answer")
    return calls


def _thinking(body: Any) -> None:
    thinking = body.get("thinking", {})
    if thinking.get("type") != "enabled":
        return
    _must(1_024 <= thinking["budget_tokens"] < body["max_tokens"], "a budget that does not fit")
    _must(body.get("temperature", 1) == 1, "a temperature beside thinking")
    _must("top_k" not in body, "top_k beside thinking")
    _must(body.get("tool_choice", {}).get("type") not in ("any", "tool"), "a forced call beside thinking")
