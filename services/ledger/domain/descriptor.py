"""Signed descriptors of holds: proof, in an event, that the ledger granted a hold it may have lost since.

Called by posting.py: signs at Reserve, reads at Settle when the hold is not there (a failover lost it).
"""

import base64
import hashlib
import hmac

import msgspec

_SIGNATURE_BYTES = 16
_VERSION = "h1"
_BLOCK_BYTES = 64


class Descriptor(msgspec.Struct, frozen=True, gc=False):
    """What was granted: enough to charge the request without its hold."""

    request_id: str
    line: int
    account_id: str
    billing_kind: str
    price_version: str


class Signer:
    """Signs and reads descriptors with one secret."""

    def __init__(self, secret: bytes) -> None:
        # HMAC-SHA256 begun once: from the secret on, it costs two and a half times as much a descriptor.
        key = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK_BYTES else secret).ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def sign(self, granted: Descriptor) -> str:
        """The descriptor as text for an event."""
        body = "|".join(
            (
                _VERSION,
                granted.request_id,
                str(granted.line),
                granted.account_id,
                granted.billing_kind,
                granted.price_version,
            )
        ).encode()
        return base64.urlsafe_b64encode(self._signature(body) + body).decode()

    def read(self, text: str) -> Descriptor | None:
        """The descriptor inside ``text``, or None when we did not sign it."""
        try:
            raw = base64.urlsafe_b64decode(text.encode())
        except ValueError:
            return None
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(body)):
            return None
        version, request_id, line, account_id, billing_kind, price_version = body.decode().split("|", 5)
        if version != _VERSION:
            return None
        return Descriptor(request_id, int(line), account_id, billing_kind, price_version)

    def _signature(self, body: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(body)
        outer.update(inner.digest())
        return outer.digest()[:_SIGNATURE_BYTES]
