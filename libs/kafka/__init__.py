"""The only door to Kafka: consume, produce, tables, outbox, dead letters. Nothing else imports its clients.

Used by services/*/app.py and consumers.py, and by stores that put events into their outbox.
"""

from libs.kafka.bus import Bus
from libs.kafka.chain import Retry
from libs.kafka.heartbeat import Heartbeats
from libs.kafka.inbox import INBOX_SQL, Inbox
from libs.kafka.outbox import OUTBOX_SQL, WATERMARK_SQL, OutboxRelay, put
from libs.kafka.producer import Limits, Producer
from libs.kafka.records import Received
from libs.kafka.table import Table

__all__ = [
    "INBOX_SQL",
    "OUTBOX_SQL",
    "WATERMARK_SQL",
    "Bus",
    "Heartbeats",
    "Inbox",
    "Limits",
    "OutboxRelay",
    "Producer",
    "Received",
    "Retry",
    "Table",
    "put",
]
