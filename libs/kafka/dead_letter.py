"""Dead letters: a record that cannot be handled, kept as it was with where it came from and why; and their limit.

Called by the consumer chain; read back by replay.py.
"""

from collections import deque

from aiokafka import ConsumerRecord as Record
from aiokafka import TopicPartition

from libs.core.clock import rfc3339
from libs.events.topics import dead_topic
from libs.kafka.errors import error_class, safe_text
from libs.kafka.publisher import Outgoing, Publisher
from libs.kafka.records import Headers, header_text

DEAD_SUFFIX = ".dead.v1"
RETRY_SUFFIX = ".retry.v1"
PREFIX = "dead-"
ORIGIN_TOPIC = "dead-origin-topic"
ORIGIN_PARTITION = "dead-origin-partition"
ORIGIN_OFFSET = "dead-origin-offset"
CONSUMER = "dead-consumer"
ERROR_CLASS = "dead-error-class"
ERROR_TEXT = "dead-error-text"
ATTEMPTS = "dead-attempts"
FIRST_FAILED = "dead-first-failed"

IN_A_ROW = 20
WINDOW = 400
IN_WINDOW = WINDOW * 5 // 100


def origin_of(record: Record) -> tuple[str, int, int]:
    """Public topic, partition and offset of a record, also of one that comes back from the dead."""
    if topic := header_text(record.headers, ORIGIN_TOPIC):
        return topic, _number(record.headers, ORIGIN_PARTITION), _number(record.headers, ORIGIN_OFFSET)
    return record.topic, record.partition, record.offset


def without_ours(headers: Headers) -> Headers:
    """The headers the record had before it first died."""
    return [(key, value) for key, value in headers if not key.startswith(PREFIX)]


def _number(headers: Headers, name: str) -> int:
    text = header_text(headers, name)
    return int(text) if text.isdigit() else 0


class DeadLetters:
    """Writes a service's dead letters."""

    def __init__(self, service: str, publisher: Publisher) -> None:
        self._service = service
        self._publisher = publisher
        self._topic = dead_topic(service).name

    async def bury(self, record: Record, error: BaseException, attempts: int, first_failed_ms: int) -> None:
        """Put a record on the dead topic: same bytes, key and headers, plus its story.

        Returns when the broker has confirmed it; raises Transient otherwise, and then the record's offset must
        not move.
        """
        topic, partition, offset = origin_of(record)
        story = {
            ORIGIN_TOPIC: topic,
            ORIGIN_PARTITION: str(partition),
            ORIGIN_OFFSET: str(offset),
            CONSUMER: self._service,
            ERROR_CLASS: error_class(error),
            ERROR_TEXT: safe_text(error),
            ATTEMPTS: str(_number(record.headers, ATTEMPTS) + attempts),
            FIRST_FAILED: header_text(record.headers, FIRST_FAILED) or rfc3339(first_failed_ms),
        }
        headers = [*without_ours(record.headers), *((name, text.encode()) for name, text in story.items())]
        # A record with neither key nor value cannot be sent; an empty value stands for "nothing" there.
        value = b"" if record.value is None and record.key is None else record.value
        await self._publisher.publish(Outgoing(self._topic, record.key, value, headers))


class Limit:
    """Stops a consumer before a bad deployment turns a whole topic into dead letters.

    Counts per partition: too many in a row, or too large a share of the last records.
    """

    def __init__(self) -> None:
        self._in_a_row: dict[TopicPartition, int] = {}
        self._recent: dict[TopicPartition, deque[bool]] = {}
        self._dead: dict[TopicPartition, int] = {}

    def good(self, partition: TopicPartition) -> None:
        self._in_a_row[partition] = 0
        self._note(partition, dead=False)

    def dead(self, partition: TopicPartition) -> str | None:
        """Count a dead letter; return why to stop, or None."""
        in_a_row = self._in_a_row[partition] = self._in_a_row.get(partition, 0) + 1
        self._note(partition, dead=True)
        place = f"{partition.topic}/{partition.partition}"
        if in_a_row >= IN_A_ROW:
            return f"{in_a_row} dead letters in a row on {place}"
        if self._dead[partition] > IN_WINDOW:
            return f"more than {IN_WINDOW} dead letters among the last {WINDOW} records of {place}"
        return None

    def _note(self, partition: TopicPartition, *, dead: bool) -> None:
        recent = self._recent.setdefault(partition, deque())
        recent.append(dead)
        self._dead[partition] = self._dead.get(partition, 0) + dead
        if len(recent) > WINDOW:
            self._dead[partition] -= recent.popleft()
