"""The envelope of every event and how unions of event types are read.

Called by libs.kafka when it decodes records and by services that make events (CloudEvents names).
"""

from typing import Any, ClassVar

import msgspec
from pydantic import BaseModel, ConfigDict

from libs.core.clock import rfc3339
from libs.core.ids import uuid7_hex


class Envelope(msgspec.Struct, frozen=True):
    """One event as it lies on a topic: who says it, about what, when, and the facts."""

    id: str
    type: str
    source: str
    subject: str
    time: str
    data: dict[str, Any]


class EventData(BaseModel):
    """Base of all event payloads: unknown fields are ignored, so that adding optional ones breaks no reader."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    TYPE: ClassVar[str]
    """``<owner>.<fact_in_past_tense>.v<n>``."""


class Heartbeat(EventData):
    """Sent by the owner of a table topic so that readers can measure how old their table is."""

    TYPE: ClassVar[str] = "kenari.heartbeat.v1"


def envelope(data: EventData, *, source: str, subject: str, now_ms: int) -> Envelope:
    """Wrap a payload; ``source`` is the service, ``subject`` the thing whose order matters (the record's key)."""
    return Envelope(
        id=uuid7_hex(),
        type=data.TYPE,
        source=source,
        subject=subject,
        time=rfc3339(now_ms),
        data=data.model_dump(mode="json"),
    )


def encode(event: Envelope) -> bytes:
    """The envelope as JSON bytes."""
    return msgspec.json.encode(event)


_decoder = msgspec.json.Decoder(Envelope)


def decode(raw: bytes) -> Envelope:
    """Read an envelope; raise msgspec.DecodeError or msgspec.ValidationError for anything else."""
    return _decoder.decode(raw)
