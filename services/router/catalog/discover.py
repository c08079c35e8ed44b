"""Asks providers which models they have, and keeps those that look like chat models.

Called by services/router/keeper.py. A provider that does not answer changes nothing; the error never carries
its key, its URL or its text.
"""

import json
import re
from typing import Any

import aiohttp

from libs.core.errors import Transient
from services.router.catalog.cards import Listed
from services.router.catalog.fields import model_id_problem
from services.router.catalog.load import Provider
from services.router.catalog.models import FREE_SUFFIX

_MOST_BYTES = 8 * 1024 * 1024
_MOST_MODELS = 5_000

# Kinds that a chat request cannot use. Whole words of the id, so that "image" does not hit "imagery".
_OTHER_KINDS = re.compile(
    r"(^|[-_/.:])("
    r"embed|embedding|embeddings|embedder|tts|whisper|transcribe|transcription|asr|stt|speech|audio|realtime|"
    r"dall-e|image|images|imagen|flux|diffusion|sdxl|sora|veo|video|music|"
    r"moderation|moderations|rerank|reranker|bge|clip|ocr|"
    r"babbage|davinci|computer-use|deep-research|codex|turbo-instruct"
    r")([-_/.:]|$|\d)",
    re.IGNORECASE,
)
# Answer on the Responses API alone.
_RESPONSES_ONLY = re.compile(r"^(o\d+|gpt-\d[\d.]*)-pro(-|$)", re.IGNORECASE)
_VENDOR = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# Owners as OpenAI writes them for models of its own.
_OPENAI_OWNERS = ("system", "openai-internal", "openai-dev")


class DiscoveryError(Transient):
    """A provider's list could not be read; it is asked again later."""

    reason = "discovery_failed"


def is_chat_model(upstream_id: str) -> bool:
    """False for ids that are obviously another kind of model, such as embeddings or speech."""
    return not (_OTHER_KINDS.search(upstream_id) or _RESPONSES_ONLY.search(upstream_id))


def usable(entries: Any, provider_id: str) -> tuple[Listed, ...]:
    """Keep the entries of a list that can be sold: chat models with a usable id, sorted, each once.

    ``:free`` ids are left out: giving away is for the catalogue file to say.
    """
    found: dict[str, Listed] = {}
    for entry in entries if isinstance(entries, list) else ():
        name = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(name, str) or model_id_problem(name) or name.endswith(FREE_SUFFIX):
            continue
        if is_chat_model(name) and len(found) < _MOST_MODELS:
            found.setdefault(name, Listed(name, _vendor(entry.get("owned_by"), provider_id)))
    return tuple(found[name] for name in sorted(found))


def _vendor(owner: Any, provider_id: str) -> str:
    name = owner.strip().lower() if isinstance(owner, str) else ""
    if name in _OPENAI_OWNERS:
        return "openai"
    return name if _VENDOR.fullmatch(name) else provider_id


def _question(provider: Provider) -> tuple[str, dict[str, str]]:
    """Query and headers of the request for the list, as the provider's format wants them."""
    secret = provider.credentials[0].secret
    match provider.format:
        case "anthropic":
            return "?limit=1000", {"x-api-key": secret, "anthropic-version": "2023-06-01"}
        case "gemini":
            return "?pageSize=1000", {"x-goog-api-key": secret}
        case _:
            return "", {"authorization": f"Bearer {secret}"} if secret else {}


def _entries(document: Any, provider: Provider) -> list[Any] | None:
    """The entries of a list, each with its ``id``; None when it is no list of the provider's format."""
    if not isinstance(document, dict):
        return None
    if provider.format != "gemini":
        entries = document.get("data")
        return entries if isinstance(entries, list) else None
    models = document.get("models")
    if not isinstance(models, list):
        return None
    named = (model for model in models if isinstance(model, dict) and isinstance(model.get("name"), str))
    chat = (model for model in named if "generateContent" in (model.get("supportedGenerationMethods") or ()))
    return [{"id": model["name"].removeprefix("models/")} for model in chat]


async def list_models(session: aiohttp.ClientSession, provider: Provider) -> tuple[Listed, ...]:
    """GET {base}/models with the provider's first credential; raise DiscoveryError without an answer to use."""
    query, headers = _question(provider)
    limit = aiohttp.ClientTimeout(total=15, sock_connect=provider.timeouts.connect_ms / 1000)
    try:
        async with session.get(
            f"{provider.base_url}/models{query}", headers=headers, timeout=limit, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise DiscoveryError(f"{provider.id} answered {answer.status}", reason=f"status_{answer.status}")
            body = await answer.content.read(_MOST_BYTES + 1)
            while len(body) <= _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES + 1 - len(body))):
                body += more
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DiscoveryError(f"{provider.id}: {type(error).__name__}", reason=type(error).__name__) from None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise DiscoveryError(f"{provider.id} sent no JSON", reason="junk") from None
    entries = _entries(document, provider)
    if entries is None:
        raise DiscoveryError(f"{provider.id} sent no list of models", reason="junk")
    return usable(entries, provider.id)
