"""Wraps reasoning that only one credential can read, so that it comes back to that one alone.

Called by the provider formats whose proofs of reasoning are bound to the account that made them.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b

from msgspec import DecodeError
from msgspec.json import Decoder, encode

from libs.llm.canonical import SEALED

_UPSTREAM = "u"

_decode = Decoder(dict[str, str]).decode


def seal(upstream: str, **members: str) -> str:
    """A signature holding ``members`` (any names but ``u``) for the ``Target.upstream`` they came from."""
    return SEALED + urlsafe_b64encode(encode({_UPSTREAM: _mark(upstream), **members})).decode().rstrip("=")


def unseal(signature: str, upstream: str) -> dict[str, str] | None:
    """The members of a signature sealed for ``upstream``; None for anything else, junk included."""
    if not signature.startswith(SEALED):
        return None
    text = signature[len(SEALED) :]
    try:
        members = _decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, DecodeError):
        return None
    return members if members.pop(_UPSTREAM, None) == _mark(upstream) else None


def _mark(upstream: str) -> str:
    """Stands for the upstream where clients can read it: its name is nobody's business."""
    return blake2b(upstream.encode(errors="surrogatepass"), digest_size=9).hexdigest()
