"""Metrics of gRPC servers, clients and check streams; every service has them."""

from libs.ops.metrics import SIZES, CounterSpec, GaugeSpec, HistogramSpec

SERVED = HistogramSpec("kenari.rpc.server.seconds", "Unary calls answered", labels=("method", "code"))
CALLED = HistogramSpec("kenari.rpc.client.seconds", "Unary calls made", labels=("method", "code"))
CHECKS_ASKED = HistogramSpec(
    "kenari.rpc.check.seconds", "Questions asked on a check stream", labels=("peer", "outcome")
)
CHECKS_WAITING = GaugeSpec("kenari.rpc.check.waiting", "Questions asked and not answered yet", labels=("peer",))
CHECK_STREAM_UP = GaugeSpec(
    "kenari.rpc.check.connected", "1 while the check stream to the peer is open", labels=("peer",)
)
CHECKS_SERVED = CounterSpec("kenari.rpc.check.served", "Questions received on check streams", labels=("kind",))
CHECK_BATCH = HistogramSpec("kenari.rpc.check.batch", "Questions per received message", buckets=SIZES)

ALL = (SERVED, CALLED, CHECKS_ASKED, CHECKS_WAITING, CHECK_STREAM_UP, CHECKS_SERVED, CHECK_BATCH)
