"""JSON schemas of the chat formats' bodies, as the OpenAPI description shows them.

Used by openapi.py. Bodies are checked by libs.llm.formats, not by these.
"""

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
_LIMIT = {"type": "integer", "minimum": 1}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_TEXT_OR_OBJECTS = {"oneOf": [TEXT, _OBJECTS]}
_LEVEL = {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]}

CHAT_REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": TEXT,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role"],
                "properties": {
                    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
                    "content": {"oneOf": [TEXT, {"type": "array", "items": {"type": "object"}}, {"type": "null"}]},
                },
            },
        },
        "stream": {"type": "boolean", "default": False},
        "max_tokens": {"type": "integer", "minimum": 1, "description": "Default 65,536, within the model's own limit"},
        "max_completion_tokens": {"type": "integer", "minimum": 1, "description": "max_tokens wins when both are sent"},
        "temperature": {"type": "number"},
        "top_p": {"type": "number"},
        "stop": {"oneOf": [TEXT, {"type": "array", "items": TEXT}]},
        "n": {"const": 1},
        "user": TEXT,
        "tools": _OBJECTS,
        "tool_choice": {},
        "reasoning_effort": _LEVEL,
        "reasoning": {"type": "object"},
        "response_format": {"type": "object"},
        "prompt_cache_key": TEXT,
    },
    "additionalProperties": True,
}
_USAGE = {
    "type": "object",
    "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
    "properties": {"prompt_tokens": COUNT, "completion_tokens": COUNT, "total_tokens": COUNT},
}
CHAT_ANSWER = {
    "type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage"],
    "properties": {
        "id": TEXT,
        "object": {"const": "chat.completion"},
        "created": {"type": "integer"},
        "model": TEXT,
        "choices": {"type": "array", "items": {"type": "object"}},
        "usage": _USAGE,
    },
}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {"message": TEXT, "type": TEXT, "param": {"type": ["string", "null"]}, "code": TEXT},
        }
    },
}
TOOL_KEY_REQUEST = {
    "type": "object",
    "required": ["tool", "host"],
    "properties": {
        "tool": {"type": "string", "pattern": "^[a-z0-9.-]{1,40}$", "description": "What the key is for"},
        "host": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$", "description": "The machine it runs on"},
    },
}
KYARA_REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": TEXT,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {
                    "role": {"enum": ["system", "developer", "user", "assistant"]},
                    "content": TEXT,
                    "name": TEXT,
                    "reasoning": TEXT,
                    "reasoning_content": TEXT,
                    "reasoning_details": {"type": "array"},
                },
                "additionalProperties": False,
            },
        },
        "stream": {"type": "boolean", "default": False},
        "max_tokens": {**_LIMIT, "default": 8192},
        "max_completion_tokens": _LIMIT,
        "reasoning": {"type": "object"},
        "reasoning_effort": _LEVEL,
        "session_id": {"type": "string", "maxLength": 256},
    },
}
MESSAGES_REQUEST = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": TEXT,
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["role", "content"],
                "properties": {"role": {"enum": ["user", "assistant", "system"]}, "content": _TEXT_OR_OBJECTS},
            },
        },
        "system": _TEXT_OR_OBJECTS,
        "max_tokens": {**_LIMIT, "description": "Default 65,536, within the model's own limit"},
        "stream": {"type": "boolean", "default": False},
        "temperature": {"type": "number"},
        "top_p": {"type": "number"},
        "top_k": COUNT,
        "stop_sequences": {"type": "array", "items": TEXT},
        "tools": _OBJECTS,
        "tool_choice": {"type": "object"},
        "thinking": {"type": "object"},
        "output_config": {"type": "object"},
        "metadata": {"type": "object"},
    },
    "additionalProperties": True,
}
MESSAGES_ANSWER = {
    "type": "object",
    "required": ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"],
    "properties": {
        "id": TEXT,
        "type": {"const": "message"},
        "role": {"const": "assistant"},
        "model": TEXT,
        "content": _OBJECTS,
        "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]},
        "stop_sequence": {"type": "null"},
        "usage": {
            "type": "object",
            "required": ["input_tokens", "output_tokens"],
            "properties": {
                "input_tokens": COUNT,
                "output_tokens": COUNT,
                "cache_read_input_tokens": COUNT,
                "cache_creation_input_tokens": COUNT,
            },
        },
    },
}
TOKEN_COUNT = {"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": COUNT}}
RESPONSES_REQUEST = {
    "type": "object",
    "required": ["model", "input"],
    "properties": {
        "model": TEXT,
        "input": _TEXT_OR_OBJECTS,
        "instructions": TEXT,
        "max_output_tokens": {**_LIMIT, "description": "Default 65,536, within the model's own limit"},
        "stream": {"type": "boolean", "default": False},
        "temperature": {"type": "number"},
        "top_p": {"type": "number"},
        "tools": _OBJECTS,
        "tool_choice": {},
        "reasoning": {"type": ["object", "null"]},
        "text": {"type": "object"},
        "prompt_cache_key": TEXT,
    },
    "additionalProperties": True,
}
RESPONSES_ANSWER = {
    "type": "object",
    "required": ["id", "object", "created_at", "status", "model", "output", "usage", "text"],
    "properties": {
        "id": TEXT,
        "object": {"const": "response"},
        "created_at": {"type": "integer"},
        "status": {"enum": ["completed", "incomplete"]},
        "model": TEXT,
        "output": _OBJECTS,
        "usage": {
            "type": "object",
            "required": ["input_tokens", "output_tokens", "total_tokens"],
            "properties": {"input_tokens": COUNT, "output_tokens": COUNT, "total_tokens": COUNT},
        },
        "text": {"type": "object"},
    },
}
ANTHROPIC_ERROR = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": TEXT, "message": TEXT},
        },
    },
}
