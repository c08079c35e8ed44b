"""What programs read about this gateway before they have a key: the lists of models in the formats of two tools.

Called by the endpoints of the same name (contract: Integrations overview, Claude Code Router and Kimi Code).
"""

from typing import Any

from libs.events.router import ModelPublished
from services.edge.catalog import Catalog

_NAME = "kenari"
_KEY_VARIABLE = "KENARI_API_KEY"


def claude_code_router(catalog: Catalog, public_url: str) -> dict[str, Any]:
    """The provider as Claude Code Router imports it: where it is, how it speaks, the models that call functions."""
    models = [model.id for model in _chat_models(catalog) if model.tool_call]
    return {
        "provider": {
            "name": _NAME,
            "base_url": f"{public_url}/v1",
            "protocol": "openai_chat_completions",
            "models": models,
            "source": public_url,
        }
    }


def models_dev(catalog: Catalog, public_url: str) -> dict[str, Any]:
    """The provider as an entry of a registry in the manner of models.dev."""
    return {
        _NAME: {
            "id": _NAME,
            "name": _NAME,
            "env": [_KEY_VARIABLE],
            "npm": "@ai-sdk/openai-compatible",
            "type": "openai",
            "api": f"{public_url}/v1",
            "doc": public_url,
            "models": {model.id: _registered(model) for model in _chat_models(catalog)},
        }
    }


def _chat_models(catalog: Catalog) -> list[ModelPublished]:
    return [model for model in catalog.listed(None) if "chat" in model.endpoints]


def _registered(model: ModelPublished) -> dict[str, Any]:
    inputs = [kind for kind in model.input_modalities if kind != "file"]
    return {
        "id": model.id,
        "name": model.name,
        "attachment": "image" in inputs,
        "reasoning": bool(model.reasoning),
        "tool_call": bool(model.tool_call),
        "temperature": True,
        "modalities": {"input": inputs, "output": list(model.output_modalities)},
        # The registry counts in dollars, kenari does not (contract: Kimi Code).
        "cost": {"input": 0, "output": 0},
        "limit": {"context": model.context_length or 0, "output": model.max_output_tokens or 0},
    }
