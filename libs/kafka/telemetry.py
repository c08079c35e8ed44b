"""Metrics of consumers, tables, the direct producer and the outbox; every service that uses Kafka has them.

Declared here, counted by the modules beside; the dashboards are made from ``ALL``.
"""

from libs.ops.metrics import SIZES, CounterSpec, GaugeSpec, HistogramSpec

CONSUMED = CounterSpec(
    "kenari.kafka.consumer.records",
    "Records taken from a topic, by what became of them: handled, ignored (no handler for the type), dead (put on the"
    " dead topic), held (read again later), dropped (a dead letter that failed again)",
    labels=("topic", "outcome"),
)
FAILED = CounterSpec(
    "kenari.kafka.consumer.failures", "Tries of a handler that failed, by class of error", labels=("topic", "error")
)
RETRIED = CounterSpec("kenari.kafka.consumer.retries", "Tries after the first", labels=("topic",))
DEAD = CounterSpec(
    "kenari.kafka.consumer.dead_letters", "Records put on the service's dead topic", labels=("topic", "error")
)
STOPPED = GaugeSpec(
    "kenari.kafka.consumer.stopped",
    "1 when too many dead letters stopped the consumer: look before restarting",
    labels=("topic",),
)
HANDLER_SECONDS = HistogramSpec("kenari.kafka.consumer.seconds", "One call of a handler", labels=("topic",))
BATCH = HistogramSpec("kenari.kafka.consumer.batch", "Records per call of a batch handler", ("topic",), SIZES)
LAG = GaugeSpec("kenari.kafka.consumer.lag", "Records not handled yet", labels=("topic", "partition"))
OLDEST = GaugeSpec(
    "kenari.kafka.consumer.oldest_seconds",
    "Age of the oldest record not handled yet; 0 when there is none",
    labels=("topic",),
)
TABLE_AGE = GaugeSpec("kenari.kafka.table.age_seconds", "Time since the owner last wrote or beat", labels=("topic",))
TABLE_ROWS = GaugeSpec("kenari.kafka.table.rows", "Keys held", labels=("topic",))
TABLE_RECORDS = CounterSpec(
    "kenari.kafka.table.records",
    "Records read: applied, removed, heartbeat, stale (older version), undecodable",
    labels=("topic", "outcome"),
)
PRODUCED = CounterSpec(
    "kenari.kafka.producer.records",
    "Records of the direct producer: sent, spooled, replayed, shed",
    labels=("topic", "outcome"),
)
PRODUCE_FAILURES = CounterSpec(
    "kenari.kafka.producer.failures", "Batches that the broker did not confirm in time", labels=("error",)
)
QUEUED = GaugeSpec("kenari.kafka.producer.queued_bytes", "Waiting in memory for the next hand-over")
SPOOL_BYTES = GaugeSpec("kenari.kafka.spool.bytes", "Waiting in files for the broker")
OUTBOX_SENT = CounterSpec("kenari.kafka.outbox.records", "Outbox rows confirmed by the broker", labels=("topic",))
OUTBOX_FAILURES = CounterSpec(
    "kenari.kafka.outbox.failures", "Rounds of the relay that failed, by what was away", labels=("error",)
)
OUTBOX_LEADER = GaugeSpec("kenari.kafka.outbox.leader", "1 in the process whose relay publishes")
OUTBOX_OLDEST = GaugeSpec("kenari.kafka.outbox.oldest_seconds", "Age of the oldest row not published yet")

ALL = (
    CONSUMED,
    FAILED,
    RETRIED,
    DEAD,
    STOPPED,
    HANDLER_SECONDS,
    BATCH,
    LAG,
    OLDEST,
    TABLE_AGE,
    TABLE_ROWS,
    TABLE_RECORDS,
    PRODUCED,
    PRODUCE_FAILURES,
    QUEUED,
    SPOOL_BYTES,
    OUTBOX_SENT,
    OUTBOX_FAILURES,
    OUTBOX_LEADER,
    OUTBOX_OLDEST,
)
