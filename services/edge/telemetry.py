"""The metrics of the edge, declared before use."""

from libs.llm.failures import FailureKind
from libs.ops.metrics import CounterSpec, GaugeSpec, HistogramSpec

REQUESTS = HistogramSpec(
    "kenari.edge.request.seconds",
    "Requests from the first byte in to the last byte out; 499 when the client left before an answer",
    labels=("endpoint", "status"),
    values=(("chat",), ("200", "400", "401", "402", "404", "429", "499", "500", "503")),
)
OVERHEAD = HistogramSpec("kenari.edge.admission.seconds", "From the request to the first call of a provider")
FIRST_BYTE = HistogramSpec("kenari.edge.first_byte.seconds", "From the request to the first content of the answer")
LIVE = GaugeSpec("kenari.edge.requests.live", "Requests being served now")
ATTEMPTS = HistogramSpec(
    "kenari.edge.attempt.seconds",
    "Calls of providers",
    labels=("outcome",),
    values=(("completed", "client_closed", *(kind.value for kind in FailureKind)),),
)
TOKENS = CounterSpec("kenari.edge.tokens", "Tokens of finished requests", labels=("direction",))
REFUSALS = CounterSpec("kenari.edge.refusals", "Requests answered with an error, by code", labels=("code",))
DEGRADED = CounterSpec("kenari.edge.limiter.absent", "Requests decided without the limiter", labels=("decision",))
REFUSED_HERE = CounterSpec(
    "kenari.edge.limiter.remembered", "Requests refused by what the limiter had refused a moment before"
)
KEY_LOOKUPS = CounterSpec("kenari.edge.key.lookups", "Where keys were found", labels=("source",))
KEYS_AGE = GaugeSpec("kenari.edge.keys.age_seconds", "Time since the owner of the keys was last heard")
SETTLEMENTS = CounterSpec("kenari.edge.settlements", "Settlements sent to the ledger at once", labels=("outcome",))
UNBELIEVABLE = CounterSpec("kenari.edge.usage.unbelievable", "Usage reports of providers that cannot be true")
IDEMPOTENCY = CounterSpec(
    "kenari.edge.idempotency",
    "Requests with an idempotency key, by what is known of the key",
    labels=("state",),
    values=(("claimed", "outcome", "running", "reused", "lost", "away"),),
)
BODY_BYTES = GaugeSpec("kenari.edge.body.large_bytes", "Memory held by large request bodies")

ALL = (
    REQUESTS,
    OVERHEAD,
    FIRST_BYTE,
    LIVE,
    ATTEMPTS,
    TOKENS,
    REFUSALS,
    DEGRADED,
    REFUSED_HERE,
    KEY_LOOKUPS,
    KEYS_AGE,
    SETTLEMENTS,
    UNBELIEVABLE,
    IDEMPOTENCY,
    BODY_BYTES,
)
