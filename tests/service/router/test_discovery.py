"""Reading a provider's list of models over real HTTP: what is kept, and how failures are told."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from services.router.catalog.cards import Listed
from services.router.catalog.discover import DiscoveryError, list_models
from services.router.catalog.document import Abilities, Timeouts
from services.router.catalog.load import Credential, Provider
from tests.service.router.listing_provider import ListingProvider

SECRET = "sk-very-secret"


@pytest.fixture
async def listing() -> AsyncIterator[ListingProvider]:
    async with ListingProvider() as running:
        yield running


async def ask(listing: ListingProvider, **changes: object) -> tuple[Listed, ...]:
    credentials = (Credential("openai/KEY", SECRET),)
    waits = Timeouts(connect_ms=500)
    provider = Provider("openai", "openai_chat", listing.base_url, credentials, True, Abilities(), waits)
    async with aiohttp.ClientSession() as session:
        return await list_models(session, replace(provider, **changes))  # type: ignore[arg-type]


async def test_the_list_is_asked_for_with_the_key_and_kept_to_chat_models(listing: ListingProvider) -> None:
    listing.models = ["gpt-4o", "text-embedding-3-small", "whisper-1", "llama-3.3-70b"]
    assert [model.id for model in await ask(listing)] == ["gpt-4o", "llama-3.3-70b"]
    assert listing.seen == [f"Bearer {SECRET}"]


async def test_an_anthropic_list_is_asked_for_with_its_own_headers(listing: ListingProvider) -> None:
    listing.models = ["claude-x"]
    assert [model.id for model in await ask(listing, format="anthropic")] == ["claude-x"]
    assert listing.headers["x-api-key"] == SECRET
    assert listing.headers["anthropic-version"] == "2023-06-01"


async def test_a_gemini_list_keeps_the_models_that_generate(listing: ListingProvider) -> None:
    listing.body = json.dumps(
        {
            "models": [
                {"name": "models/gemini-x", "supportedGenerationMethods": ["generateContent", "countTokens"]},
                {"name": "models/embedding-x", "supportedGenerationMethods": ["embedContent"]},
                {"name": 3},
                "junk",
            ]
        }
    )
    assert [model.id for model in await ask(listing, format="gemini")] == ["gemini-x"]
    assert listing.headers["x-goog-api-key"] == SECRET


async def test_a_server_without_keys_is_asked_without_one(listing: ListingProvider) -> None:
    listing.models = ["qwen3"]
    assert await ask(listing, credentials=(Credential("local/default", ""),)) == (Listed("qwen3", "someone"),)
    assert listing.seen == [""]


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, f'{{"error": "bad key {SECRET}"}}', "status_401"),
        (500, "oops", "status_500"),
        (200, "<html>", "junk"),
        (200, "[]", "junk"),
        (200, '{"data": 3}', "junk"),
        (200, "[" * 100_000, "junk"),
        (200, "x" * (9 * 1024 * 1024), "junk"),
    ],
    ids=["refused", "broken", "html", "array", "no-list", "deep", "huge"],
)
async def test_an_answer_of_no_use_is_an_error_without_its_text(
    listing: ListingProvider, status: int, body: str, reason: str
) -> None:
    listing.status, listing.body = status, body
    with pytest.raises(DiscoveryError) as failed:
        await ask(listing)
    assert failed.value.reason == reason
    assert SECRET not in str(failed.value)
    assert listing.base_url not in str(failed.value)


async def test_a_server_that_is_not_there_is_an_error(listing: ListingProvider) -> None:
    port = listing.port
    await listing.close()
    with pytest.raises(DiscoveryError) as failed:
        await ask(listing, base_url=f"http://127.0.0.1:{port}/v1")
    assert str(port) not in str(failed.value)


async def test_redirects_are_not_followed_with_the_key(listing: ListingProvider) -> None:
    listing.status, listing.location = 302, f"{listing.base_url}/elsewhere"
    with pytest.raises(DiscoveryError, match="302"):
        await ask(listing)
    await asyncio.sleep(0)
    assert len(listing.seen) == 1
