"""The manifests for tools: the same models as in the list, where to call them, no price and no key."""

import json

import pytest

from libs.events.router import ModelPublished, Price
from services.edge.catalog import Catalog
from services.edge.manifests import claude_code_router, models_dev
from services.edge.settings import EdgeSettings
from tests.unit.edge.published import card, catalog

URL = "https://kenari.example"
SEES = {
    "input_modalities": ("text", "image", "file"),
    "context_length": 1_000,
    "max_output_tokens": 100,
    "tool_call": True,
    "reasoning": True,
    "price": Price(version="p", input=5, output=6),
}


@pytest.fixture
def listed() -> Catalog:
    models: list[ModelPublished] = [
        card("sees", **SEES),
        card("mute", tool_call=False),
        card("unknown"),
        card("painter", "images", tool_call=True),
        card("e", "embeddings"),
        card("web_search", kind="fee"),
    ]
    return catalog(*models)


@pytest.mark.rule("INT-006", "INT-007", "INT-008")
def test_the_manifest_has_exactly_the_chat_models_that_call_functions(listed: Catalog) -> None:
    provider = claude_code_router(listed, URL)["provider"]
    assert provider["models"] == ["sees"]
    assert (provider["base_url"], provider["protocol"]) == (f"{URL}/v1", "openai_chat_completions")
    assert "key" not in json.dumps(provider)


@pytest.mark.rule("INT-018", "INT-019")
def test_the_registry_agrees_with_the_list_and_has_no_prices(listed: Catalog) -> None:
    provider = models_dev(listed, URL)["kenari"]
    assert (provider["api"], provider["env"]) == (f"{URL}/v1", ["KENARI_API_KEY"])
    models = provider["models"]
    assert set(models) == {"sees", "mute", "unknown"}
    sees = models["sees"]
    assert sees["limit"] == {"context": 1_000, "output": 100}
    assert (sees["attachment"], sees["tool_call"], sees["reasoning"]) == (True, True, True)
    assert (models["mute"]["attachment"], models["mute"]["tool_call"]) == (False, False)
    assert {str(model["cost"]) for model in models.values()} == {str({"input": 0, "output": 0})}


@pytest.mark.parametrize(
    ("told", "reached"), [("", "http://127.0.0.1:8080"), ("https://a.example/", "https://a.example")]
)
def test_clients_are_told_the_public_address_or_the_one_listened_on(told: str, reached: str) -> None:
    settings = EdgeSettings.model_validate({"key_hash_secret": "s" * 32, "public_url": told})
    assert settings.reached_at == reached
