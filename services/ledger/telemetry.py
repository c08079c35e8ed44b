"""The ledger's metrics, declared once. Used by the modules that count; dashboards are made from ALL."""

from libs.ops.metrics import SIZES, CounterSpec, GaugeSpec, HistogramSpec

RESERVATIONS = CounterSpec(
    "kenari.ledger.reservations",
    "Reservations by result",
    labels=("result",),
    values=(
        (
            "granted",
            "before",
            "redirected",
            "failed",
            "insufficient_balance",
            "payg_limit_reached",
            "key_spend_cap_reached",
            "member_spend_cap_reached",
            "plan_limit_reached",
            "subscribers_only",
        ),
    ),
)
SETTLEMENTS = CounterSpec(
    "kenari.ledger.settlements",
    "Settlements by billing kind and result",
    labels=("kind", "result"),
    values=(("payg", "plan", "coupon", "token_alloc", "free", "byok"), ("done", "before", "conflict")),
)
RELEASES = CounterSpec(
    "kenari.ledger.releases", "Releases by result", labels=("result",), values=(("done", "before", "nothing"),)
)
CHARGED = CounterSpec("kenari.ledger.charged.micro_idr", "Money taken from balances for usage")
CREDITED = CounterSpec(
    "kenari.ledger.credited.micro_idr", "Money put into wallets", labels=("kind",), values=(("top_up", "bonus"),)
)
CONFLICTS = CounterSpec(
    "kenari.ledger.conflicts", "Settlements that contradict the one that stands; each has a row in settle_conflict"
)
FAILED = CounterSpec("kenari.ledger.failed", "Calls that got no answer, by reason", labels=("reason",))
HOLDS_OPEN = GaugeSpec("kenari.ledger.holds.open", "Holds of running requests")
HOLDS_OVERDUE = GaugeSpec("kenari.ledger.holds.overdue", "Open holds past their life, not swept yet")
EXPIRED = CounterSpec("kenari.ledger.holds.expired", "Holds that nobody finished in time")
QUEUE = GaugeSpec("kenari.ledger.queue.length", "Calls waiting for the next batch", labels=("shard",))
BATCH = HistogramSpec("kenari.ledger.batch.calls", "Calls per transaction", buckets=SIZES)
BATCH_SECONDS = HistogramSpec(
    "kenari.ledger.batch.seconds",
    "Transactions of the queue, commit included",
    buckets=(0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1, 2),
)
BATCH_RETRIES = CounterSpec(
    "kenari.ledger.batch.retries",
    "Batches tried again under the same ids",
    labels=("reason",),
    values=(("raced", "database_busy", "database_away"),),
)
USAGE_EVENTS = CounterSpec("kenari.ledger.usage.events", "Usage events read, by what they changed", labels=("result",))
PRICE_MISSES = CounterSpec(
    "kenari.ledger.price.misses",
    "Price versions that were not known",
    labels=("found",),
    values=(("table", "router", "nowhere"),),
)
DEFAULT_ROWS = GaugeSpec(
    "kenari.ledger.partitions.default_rows", "Rows in a DEFAULT partition: a day had none of its own", labels=("table",)
)
BROKEN = GaugeSpec(
    "kenari.ledger.invariants.broken", "Rows that break an invariant of the books", labels=("invariant",)
)
ROLLUP_AGE = GaugeSpec(
    "kenari.ledger.rollup.age_seconds", "How old the sums of usage may be; reads add what is younger"
)
ROLLUP_ENTRIES = CounterSpec("kenari.ledger.rollup.entries", "Outbox entries gone through for the sums")

ALL = (
    RESERVATIONS,
    SETTLEMENTS,
    RELEASES,
    CHARGED,
    CREDITED,
    CONFLICTS,
    FAILED,
    HOLDS_OPEN,
    HOLDS_OVERDUE,
    EXPIRED,
    QUEUE,
    BATCH,
    BATCH_SECONDS,
    BATCH_RETRIES,
    USAGE_EVENTS,
    PRICE_MISSES,
    DEFAULT_ROWS,
    BROKEN,
    ROLLUP_AGE,
    ROLLUP_ENTRIES,
)
