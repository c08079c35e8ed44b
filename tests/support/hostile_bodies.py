"""Bodies as no client should send them: whole ones of each chat path, and each of their members made wrong in turn.
Used by the tests of the formats and by the end-to-end test of the same name.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any, TypeAlias

CHAT, MESSAGES, COUNT = "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"
RESPONSES, KYARA = "/v1/responses", "/kyara/v1/chat/completions"

_SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "$defs": {"x": {}}}
_PNG = "data:image/png;base64,iVBORw0KGgo="
_MARK = {"type": "ephemeral"}
_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"n":1}'}}
_CHAT = {
    "model": "fx-oai",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Really."}]},
        {
            "role": "user",
            "name": "ani",
            "content": [
                {"type": "text", "text": "Look", "cache_control": _MARK},
                {"type": "image_url", "image_url": {"url": _PNG, "detail": "low"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
            ],
        },
        {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "1"}]},
        {"role": "assistant", "content": "One", "refusal": None},
        {"role": "system", "content": "Later."},
        {"role": "user", "content": "And?"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": _SCHEMA, "strict": True}},
        {"type": "custom", "custom": {"name": "g"}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": True,
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA, "strict": True}},
    "reasoning": {"effort": "low", "max_tokens": 100, "enabled": True, "exclude": False},
    "reasoning_effort": "low",
    "stream_options": {"include_usage": True},
    "max_tokens": 50,
    "max_completion_tokens": 50,
    "temperature": 0.5,
    "top_p": 0.5,
    "stop": ["x", "y"],
    "user": "u",
    "n": 1,
    "seed": 1,
    "logprobs": True,
    "top_logprobs": 2,
    "logit_bias": {"1": 1},
    "prompt_cache_key": "k",
    "stream": False,
    "plugins": [{"id": "web"}],
    "provider": {"order": ["a"]},
    "metadata": {"a": "b"},
}
_MESSAGES = {
    "model": "fx-oai",
    "max_tokens": 2_000,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": _MARK}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look", "cache_control": _MARK},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {"type": "image", "source": {"type": "url", "url": "https://images.example/a.png"}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}, "title": "t"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "Calling"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "is_error": False,
                    "content": [{"type": "text", "text": "1"}],
                },
                {"type": "text", "text": "And?"},
            ],
        },
    ],
    "tools": [
        {"name": "f", "description": "d", "input_schema": _SCHEMA, "strict": True, "cache_control": _MARK},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1_024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": _SCHEMA}},
    "output_format": {"type": "json_schema", "schema": _SCHEMA},
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "stop_sequences": ["x"],
    "stream": False,
    "metadata": {"user_id": "u"},
    "service_tier": "auto",
}
_RESPONSES = {
    "model": "fx-oai",
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "developer", "content": "Really."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": _PNG, "detail": "low"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm"}],
            "content": None,
            "encrypted_content": "kn1.eyJ1IjoieCJ9",
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"n":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "1"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "One", "annotations": []}],
        },
        {"type": "item_reference", "id": "x"},
        {"role": "user", "content": "And?"},
    ],
    "tools": [
        {"type": "function", "name": "f", "description": "d", "parameters": _SCHEMA, "strict": True},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "function", "name": "f"},
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "s", "schema": _SCHEMA, "strict": True}, "verbosity": "low"},
    "max_output_tokens": 50,
    "temperature": 0.5,
    "top_p": 0.5,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "previous_response_id": None,
    "prompt_cache_key": "k",
    "metadata": {"a": "b"},
    "stream": False,
}
_KYARA = {
    "model": "fx-oai",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "reasoning": "Hm", "reasoning_details": [{"type": "x"}]},
        {"role": "user", "content": "And?", "name": "ani"},
    ],
    "max_tokens": 50,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "stop": ["x"],
    "n": 1,
    "session_id": "s",
    "reasoning": {"effort": "low", "max_tokens": 100, "enabled": True, "exclude": False},
    "reasoning_effort": "low",
    "stream_options": {"include_usage": True},
    "seed": 1,
    "user": "u",
    "logprobs": True,
    "stream": False,
}
WHOLE: dict[str, dict[str, Any]] = {
    CHAT: _CHAT,
    MESSAGES: _MESSAGES,
    COUNT: _MESSAGES,
    RESPONSES: _RESPONSES,
    KYARA: _KYARA,
}
"""A body of every path with all members it knows."""

WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e308, 2**31, 2**63, 2**64, -(2**70), 10**400),
    *("", " ", "x", "\x00", "\ud800", "0" * 5_000, "auto", "function", "text", "json_schema"),
    *([], {}, [[]], [None], [0], ["x"], [{}], {"": None}, {"type": "x"}, {"type": None}, {"type": "text", "text": 1}),
    *([{"type": "kenari:x"}], {"type": "object", "properties": []}),
)
"""Values that hardly any member may have."""

Place: TypeAlias = tuple[str | int, ...]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every member and element of a body, however deep."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield (*at, name)
        yield from places(inner, (*at, name))


def put(body: Any, place: Place, value: Any) -> Any:
    """A copy of ``body`` with ``value`` at that place."""
    changed = copy.deepcopy(body)
    inner = changed
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return changed


def left_out(body: Any, place: Place) -> Any:
    """A copy of ``body`` without what is at that place."""
    changed = copy.deepcopy(body)
    inner = changed
    for name in place[:-1]:
        inner = inner[name]
    del inner[place[-1]]
    return changed


_DEEP = 50_000


def misshapen(body: dict[str, Any]) -> dict[str, bytes]:
    """Bodies that are wrong as bytes or by their size, by what is wrong."""
    raw = json.dumps(body).encode()
    hole = json.dumps(put(body, ("metadata",), "HOLE")).encode()
    return {
        "nothing": b"",
        "blank": b" \n",
        "no-object": b"[]",
        "null": b"null",
        "text": b'"x"',
        "cut": raw[: len(raw) // 2],
        "more-after-it": raw + b"{}",
        "nul": raw + b"\x00",
        "byte-order-mark": b"\xef\xbb\xbf" + raw,
        "utf-16": raw.decode().encode("utf-16"),
        "latin-1": raw.replace(b"And?", b"caf\xe9"),
        "overlong": raw.replace(b"And?", b"\xc0\xaf"),
        "raw-surrogate": raw.replace(b"And?", b"\xed\xa0\x80"),
        "half-a-character": raw.replace(b"And?", b"\\ud83d"),
        "control-character": raw.replace(b"And?", b"a\x01b"),
        "deep-lists": hole.replace(b'"HOLE"', b"[" * _DEEP + b"]" * _DEEP),
        "deep-objects": hole.replace(b'"HOLE"', b'{"a":' * _DEEP + b"1" + b"}" * _DEEP),
        "open-lists": hole.replace(b'"HOLE"', b"[" * _DEEP),
        "long-number": hole.replace(b'"HOLE"', b"9" * 4_000),
        "large-exponent": hole.replace(b'"HOLE"', b"1e999999"),
        "not-a-number": hole.replace(b'"HOLE"', b"NaN"),
        "many-elements": hole.replace(b'"HOLE"', b"[" + b"0," * 800_000 + b"0]"),
        "twice-model": b'{"model":1,' + raw[1:],
        "twice-last-wrong": raw[:-1] + b',"model":1,"messages":1,"input":1}',
        "twice-stream": raw[:-1] + b',"stream":false,"stream":null}',
    }
