"""Reads topics from a moment on to the end they have now, without a group; for commands that people run.

Called by deploy.local.show. Services read through ``Bus``.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from libs.core.errors import Permanent, Transient
from libs.core.settings import KafkaSettings
from libs.events.topics import Topic
from libs.kafka.records import Received, read

_POLL_MS = 200


async def read_to_end(settings: KafkaSettings, topics: Sequence[Topic], since_ms: int) -> AsyncIterator[Received]:
    """Every readable event written at ``since_ms`` (Unix) or later, in order within each partition.

    Brokers that keep no index of times give everything from the beginning.

    Raises Transient when the broker does not answer.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        client_id="kenari-reading",
        group_id=None,
        enable_auto_commit=False,
        request_timeout_ms=settings.request_timeout_ms,
    )
    try:
        await consumer.start()
        waiting = await _seek(consumer, topics, since_ms)
        while waiting:
            for records in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
                for record in records:
                    with contextlib.suppress(Permanent):
                        yield read(record)
            for partition, end in list(waiting.items()):
                if await consumer.position(partition) >= end:
                    del waiting[partition]
    except (KafkaError, OSError) as error:
        raise Transient(f"Kafka at {settings.bootstrap} cannot be read: {error}") from error
    finally:
        await consumer.stop()


async def _seek(consumer: AIOKafkaConsumer, topics: Sequence[Topic], since_ms: int) -> dict[TopicPartition, int]:
    """Place the consumer; return the partitions with something to read, and where each ends now."""
    all_partitions = [TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)]
    consumer.assign(all_partitions)
    begins = await consumer.offsets_for_times(dict.fromkeys(all_partitions, since_ms))
    ends: dict[TopicPartition, int] = await consumer.end_offsets(all_partitions)
    waiting: dict[TopicPartition, int] = {}
    for partition in all_partitions:
        found = begins.get(partition)
        if found is None:
            consumer.seek(partition, ends[partition])
        else:
            consumer.seek(partition, found.offset)
            if found.offset < ends[partition]:
                waiting[partition] = ends[partition]
    return waiting
