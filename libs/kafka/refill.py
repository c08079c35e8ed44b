"""Puts back on a table topic what it lacks of its owner's rows: after a broker forgot, or records were lost.

Called by heartbeat.py, at start and when a topic was made anew.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Callable

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from libs.core.errors import Transient
from libs.core.settings import KafkaSettings
from libs.events.topics import Topic
from libs.kafka.publisher import Publisher, Row
from libs.kafka.tasks import within

Snapshot = Callable[[], AsyncIterator[tuple[str, bytes]]]

_POLL_MS = 200
_CLOSE_S = 1.0
_CHUNK = 500


class _Data(msgspec.Struct, gc=False):
    version: int = 0


class _Versioned(msgspec.Struct, gc=False):
    data: _Data


_decoder = msgspec.json.Decoder(_Versioned)


async def publish_missing(settings: KafkaSettings, publisher: Publisher, topic: Topic, snapshot: Snapshot) -> int:
    """Publish the rows whose key the topic lacks or has in an older ``version``; return how many they were.

    Raises Transient when broker or database are away; what was published by then need not be published again.
    """
    known = await _versions(settings, topic)
    published = 0
    lacking: list[Row] = []
    async for key, body in snapshot():
        if _decoder.decode(body).data.version > known.get(key.encode(), -1):
            lacking.append(Row(topic.name, key, body, "", time.time_ns() // 1_000_000))
        if len(lacking) == _CHUNK:
            published += await _publish(publisher, lacking)
            lacking = []
    return published + await _publish(publisher, lacking)


async def _publish(publisher: Publisher, rows: list[Row]) -> int:
    confirmed = await publisher.publish_in_order(rows)
    if confirmed < len(rows):
        raise Transient(f"{len(rows) - confirmed} rows not confirmed", reason="broker_away")
    return confirmed


async def _versions(settings: KafkaSettings, topic: Topic) -> dict[bytes, int]:
    """Version by key of what compaction would leave: the last record, even if an older version came after a newer."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        client_id="kenari-refill",
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        request_timeout_ms=settings.request_timeout_ms,
        fetch_max_wait_ms=settings.fetch_max_wait_ms,
    )
    partition = TopicPartition(topic.name, 0)
    versions: dict[bytes, int] = {}
    try:
        await consumer.start()
        consumer.assign([partition])
        begin = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.seek(partition, begin)
        while begin < end and await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    # A tombstone, or what no reader can read, is as good as nothing.
                    versions.pop(record.key or b"", None)
                    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                        if record.value is not None:
                            versions[record.key or b""] = _decoder.decode(record.value).data.version
    except (KafkaError, OSError) as error:
        raise Transient(f"{topic.name} cannot be read: {type(error).__name__}", reason="broker_away") from error
    finally:
        await within(_CLOSE_S, consumer.stop())
    return versions
