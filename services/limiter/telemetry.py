"""The limiter's metrics, declared once. Used by service.py and store.py; dashboards are made from ALL."""

from libs.ops.metrics import CounterSpec, GaugeSpec, HistogramSpec
from services.limiter.domain import Limit

ADMISSIONS = CounterSpec(
    "kenari.limiter.admissions",
    "Answers by subject, outcome (allowed or the limit that refused) and whether the store was asked",
    labels=("subject", "outcome", "source"),
)
DONES = CounterSpec(
    "kenari.limiter.dones", "Ended requests by success", labels=("success",), values=(("True", "False"),)
)
SHADOWED = CounterSpec(
    "kenari.limiter.shadowed",
    "Requests over a limit that is in shadow and so did not refuse them",
    labels=("limit",),
    values=(tuple(Limit),),
)
PACED = HistogramSpec("kenari.limiter.pacing.seconds", "How long admitted free requests were told to wait")
DEGRADED = GaugeSpec(
    "kenari.limiter.store.degraded", "1 while limits are granted from local shares because Valkey is away"
)
STORE_SECONDS = HistogramSpec(
    "kenari.limiter.store.seconds",
    "Round trips to Valkey, one per message",
    buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
)
STORE_FAILURES = CounterSpec(
    "kenari.limiter.store.failures",
    "Round trips to Valkey without an answer",
    labels=("reason",),
    values=(("timeout", "connection", "refused"),),
)
BACKLOG = GaugeSpec("kenari.limiter.backlog.size", "Ends of requests that Valkey has not heard of yet")
BACKLOG_DROPPED = CounterSpec(
    "kenari.limiter.backlog.dropped", "Ends of requests forgotten because the backlog was full"
)

ALL = (ADMISSIONS, DONES, SHADOWED, PACED, DEGRADED, STORE_SECONDS, STORE_FAILURES, BACKLOG, BACKLOG_DROPPED)
