"""A record as handlers see it, read so that nothing in it can make it disappear.

Made by the consumer chain from FastStream's messages; handlers get ``Received``.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from aiokafka import ConsumerRecord as Record
from aiokafka import TopicPartition
from faststream.kafka import KafkaMessage
from pydantic import ValidationError

from libs.core.errors import Permanent
from libs.events.base import Envelope, EventData, decode
from libs.kafka.errors import safe_text

Headers = Sequence[tuple[str, bytes | None]]

M = TypeVar("M", bound=EventData)

TRACEPARENT = "traceparent"


class Received:
    """One decoded event with where it came from.

    ``envelope`` is the event, ``key`` the record's key as bytes (empty when it had none), ``traceparent`` the
    trace it came with or "" when it is not sampled, ``trace`` the same below the span of its handling: what a handler
    passes on.
    """

    __slots__ = ("_data", "envelope", "record", "trace", "traceparent")

    def __init__(self, record: Record, envelope: Envelope) -> None:
        self.record = record
        self.envelope = envelope
        self.traceparent = self.trace = header_text(record.headers, TRACEPARENT)
        self._data: EventData | None = None

    @property
    def event_id(self) -> str:
        """The event's id: what an inbox remembers. Offsets are not ids, since an event can be published twice."""
        return self.envelope.id

    @property
    def event_type(self) -> str:
        return self.envelope.type

    @property
    def key(self) -> bytes:
        return self.record.key or b""

    @property
    def topic(self) -> str:
        return str(self.record.topic)

    @property
    def partition(self) -> int:
        return int(self.record.partition)

    @property
    def offset(self) -> int:
        return int(self.record.offset)

    @property
    def timestamp_ms(self) -> int:
        """When it was produced, by the producer's clock."""
        return int(self.record.timestamp)

    def data(self, model: type[M]) -> M:
        """The payload as ``model``; raise Permanent when it is another type or does not fit."""
        if isinstance(self._data, model):
            return self._data
        if self.envelope.type != model.TYPE:
            raise Permanent(f"{self.envelope.type} is not {model.TYPE}", reason="unexpected_type")
        try:
            made = model.model_validate(self.envelope.data)
        except ValidationError as error:
            raise Permanent(safe_text(error), reason="invalid_data") from error
        self._data = made
        return made


def read(record: Record) -> Received:
    """Decode a record; raise Permanent (reason ``undecodable``) for anything that is not an envelope."""
    try:
        return Received(record, decode(record.value or b""))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Permanent(safe_text(error), reason="undecodable") from error


def partition_of(record: Record) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def header_text(headers: Headers, name: str) -> str:
    """The last header of that name as text; "" when there is none, it is None, or it is not text."""
    for key, value in reversed(headers):
        if key == name and value is not None:
            return value.decode("utf-8", "replace")
    return ""


def trace_headers(traceparent: str) -> Headers:
    """The trace context as headers; none when it is not sampled."""
    return [(TRACEPARENT, traceparent.encode())] if traceparent else []


def _readable(record: Record) -> Record:
    """The record with headers that FastStream's parser can take: it fails on None and on what is not UTF-8."""
    if not record.headers:
        return record
    headers = [(key, (value or b"").decode("utf-8", "replace").encode()) for key, value in record.headers]
    return dataclasses.replace(record, headers=tuple(headers))


async def tolerant_parser(
    message: Record | tuple[Record, ...], original: Callable[[Any], Awaitable[KafkaMessage]]
) -> KafkaMessage:
    """Parse without ever failing. Parsing comes before every guard, so a record that fails there is simply lost."""
    if isinstance(message, tuple):
        parsed = await original(tuple(_readable(record) for record in message))
    else:
        parsed = await original(_readable(message))
    parsed.raw_message = message
    return parsed


async def whole_message(message: KafkaMessage) -> KafkaMessage:
    """Decoder that decodes nothing: one bad record of a batch would otherwise fail all before the handler runs."""
    return message
