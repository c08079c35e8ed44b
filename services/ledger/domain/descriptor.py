"""Signed descriptors of holds: proof, in an event, that the ledger granted a hold it may have lost since.

Called by posting.py: signs at Reserve, reads at Settle when the hold is not there (a failover lost it).
"""

import base64
import hmac

import msgspec

_SIGNATURE_BYTES = 16
_VERSION = "h1"


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
        self._secret = secret

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
        return hmac.digest(self._secret, body, "sha256")[:_SIGNATURE_BYTES]
