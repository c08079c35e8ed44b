"""Signed descriptors of holds: proof, in an event, that the ledger granted a hold it may have lost since.

Called by batch.py: signs at Reserve, reads at Settle when the hold is not there (a failover lost it).
"""

import base64
import hashlib
import hmac

import msgspec

from services.ledger.domain.calls import Settle
from services.ledger.domain.funding import utc_day
from services.ledger.domain.state import Hold

_SIGNATURE_BYTES = 16
_VERSION = b"h2"
_BLOCK_BYTES = 64


class Descriptor(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What was granted: enough to charge the request without its hold, on everything that the hold leaned on."""

    request_id: str
    line: int
    account_id: str
    billing_kind: str
    price_version: str
    member_id: str = ""
    source_id: str | None = None
    cycle: int | None = None
    windows: list[int | None] | None = None
    allowance_day: str | None = None
    key_epoch: int | None = None
    key_starts: str | None = None
    free_cache: bool = False
    units: int = 0


_decoder = msgspec.json.Decoder(Descriptor)


def granted_as(hold: Hold) -> Descriptor:
    """The descriptor of a hold."""
    return Descriptor(
        hold.request_id,
        hold.line,
        hold.account_id,
        hold.funding,
        hold.price_version,
        hold.member_id,
        hold.source_id,
        hold.cycle,
        hold.windows,
        hold.allowance_day,
        hold.key_epoch,
        hold.key_starts,
        hold.free_cache,
        hold.units,
    )


def lost_hold(granted: Descriptor, call: Settle) -> Hold:
    """The hold as its descriptor remembers it, run out long ago."""
    return Hold(
        # As one that ran out: nothing is reserved for it any more.
        state="expired",
        day=utc_day(int(call.request_id[:12], 16)),
        request_id=call.request_id,
        line=call.line,
        account_id=call.account_id,
        key_id=call.key_id,
        member_id=granted.member_id,
        endpoint=call.endpoint,
        model=call.model,
        funding=granted.billing_kind,
        price_version=granted.price_version,
        request_hash=call.content_hash(),
        source_id=granted.source_id,
        cycle=granted.cycle,
        windows=granted.windows,
        allowance_day=granted.allowance_day,
        key_epoch=granted.key_epoch,
        key_starts=granted.key_starts,
        free_cache=granted.free_cache,
        units=granted.units,
        created_ms=int(call.request_id[:12], 16),
        expires_ms=int(call.request_id[:12], 16),
    )


class Signer:
    """Signs and reads descriptors with one secret."""

    def __init__(self, secret: bytes) -> None:
        # HMAC-SHA256 begun once: from the secret on, it costs two and a half times as much a descriptor.
        key = (hashlib.sha256(secret).digest() if len(secret) > _BLOCK_BYTES else secret).ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def sign(self, granted: Descriptor) -> str:
        """The descriptor as text for an event."""
        body = _VERSION + msgspec.json.encode(granted)
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
        # Only what was signed here under another version can fail from now on.
        return _decoder.decode(body[len(_VERSION) :]) if body.startswith(_VERSION) else None

    def _signature(self, body: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(body)
        outer.update(inner.digest())
        return outer.digest()[:_SIGNATURE_BYTES]
