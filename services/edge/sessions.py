"""Which conversation a request belongs to, so that one provider's prompt cache serves all of it.

Called by the chat endpoint; the router keeps a session on its provider (contract: Prompt caching, Keep a conversation
together).
"""

from hashlib import blake2b

from libs.llm.canonical import ChatRequest, Role

_ID_BYTES = 12


def session_of(request: ChatRequest, *, derived: bool) -> str:
    """The client's own key, else one made of system prompt and first user text; "" means the account's one session.

    Only the digest leaves here: what is cached where is no place for prompts.
    """
    if request.cache_key:
        return _digest("key", request.cache_key)
    if not derived:
        return ""
    first = next((message.text() for message in request.messages if message.role is Role.USER), "")
    return _digest(request.system, first) if first else ""


def _digest(kind: str, text: str) -> str:
    return blake2b(f"{kind}\0{text}".encode(errors="surrogatepass"), digest_size=_ID_BYTES).hexdigest()
