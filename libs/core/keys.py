"""API keys: how they are made, recognised and hashed. The key itself is stored nowhere.

Called by accounts (makes and hashes) and the edge (recognises and hashes what clients send).
Contract: Authentication and API keys.
"""

import functools
import hmac
import re
import secrets

PREFIX = "kn-"
_SHAPE = re.compile(r"kn-[A-Za-z0-9_-]{43}")


def new_key() -> str:
    """A fresh key: ``kn-`` and 32 random bytes as 43 base64url characters."""
    return PREFIX + secrets.token_urlsafe(32)


def looks_like_key(text: str) -> bool:
    """Whether ``text`` has the shape of a key; anything else need not be hashed or looked up."""
    return _SHAPE.fullmatch(text) is not None


def hash_key(secret: bytes, key: str) -> str:
    """HMAC-SHA-256 of the key under the server's secret, lower-case hex: what is stored and compared."""
    # Copying a keyed state costs a third of keying anew, and every request is hashed once.
    state = _keyed(secret).copy()
    state.update(key.encode())
    return state.hexdigest()


@functools.lru_cache(maxsize=4)
def _keyed(secret: bytes) -> hmac.HMAC:
    return hmac.new(secret, digestmod="sha256")
