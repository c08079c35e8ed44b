"""The ledger's board: money, holds, settlements, batches, and whether the books agree with themselves.
Read by deploy.grafana.build.
"""

from deploy.grafana.layout import Board, Panel, Row
from deploy.grafana.queries import Query, halves, increase, mean, of, or_zero, rate, summed, worst
from deploy.grafana.top_row import Uses, asked, top
from libs.core.money import PER_RUPIAH
from services.ledger.telemetry import (
    BATCH,
    BATCH_RETRIES,
    BATCH_SECONDS,
    BROKEN,
    CHARGED,
    CONFLICTS,
    CREDITED,
    DEFAULT_ROWS,
    EXPIRED,
    FAILED,
    HOLDS_OPEN,
    HOLDS_OVERDUE,
    PRICE_MISSES,
    QUEUE,
    RELEASES,
    RESERVATIONS,
    ROLLUP_AGE,
    ROLLUP_ENTRIES,
    SETTLEMENTS,
    USAGE_EVENTS,
)

USES = Uses(consumes=True, tables=True, outbox=True, database=True, jobs=True)

_OWN = of("ledger")

_MONEY = Row(
    "Money",
    (
        Panel("Charged per minute", (Query(f"{increase(CHARGED, _OWN)} / {PER_RUPIAH}", "Rp charged"),), "currencyIDR"),
        Panel(
            "Credited per minute",
            (Query(f"{increase(CREDITED, _OWN, by=('kind',))} / {PER_RUPIAH}", "Rp {{kind}}"),),
            "currencyIDR",
        ),
        Panel(
            "Settlements",
            (Query(rate(SETTLEMENTS, _OWN, by=("kind", "result")), "{{kind}} {{result}}"),),
            "ops",
            about="Before: repeated by the event, which changed nothing.",
        ),
        Panel(
            "Conflicts within an hour",
            (Query(increase(CONFLICTS, _OWN, over="1h"), "conflicts"),),
            about="Settlements that contradict the one that stands.",
            alarm=1,
        ),
    ),
)

_HOLDS = Row(
    "Holds",
    (
        Panel(
            "Holds open",
            (Query(worst(HOLDS_OPEN, _OWN), "open"), Query(worst(HOLDS_OVERDUE, _OWN), "past their life")),
        ),
        Panel("Reservations", (Query(rate(RESERVATIONS, _OWN, by=("result",)), "{{result}}"),), "ops"),
        Panel("Releases", (Query(rate(RELEASES, _OWN, by=("result",)), "{{result}}"),), "ops"),
        Panel(
            "Expired",
            (Query(rate(EXPIRED, _OWN), "holds"),),
            "ops",
            about="Nobody finished them in time: an edge died or could not be heard.",
        ),
    ),
)

_QUEUES = Row(
    "Queues and batches",
    (
        Panel("Queue", (Query(summed(QUEUE, _OWN, by=("shard",)), "shard {{shard}}"),)),
        Panel("Batch size", (Query(mean(BATCH, _OWN), "mean"), *halves(BATCH, _OWN))),
        Panel("Transaction", halves(BATCH_SECONDS, _OWN), "s", about="One statement, commit included."),
        Panel("Tried again", (Query(rate(BATCH_RETRIES, _OWN, by=("reason",)), "{{reason}}"),), "ops"),
        Panel("Calls without an answer", (Query(or_zero(rate(FAILED, _OWN)), "all reasons"),), "ops"),
        Panel(
            "Usage events",
            (Query(rate(USAGE_EVENTS, _OWN, by=("result",)), "{{result}}"),),
            "ops",
            about="Settled: the event was first, the call had not come through.",
        ),
        Panel("Price versions not at hand", (Query(rate(PRICE_MISSES, _OWN, by=("found",)), "{{found}}"),), "ops"),
    ),
)

_BOOKS = Row(
    "The books",
    (
        Panel(
            "Rows that break an invariant",
            (Query(worst(BROKEN, _OWN, by=("invariant",)), "{{invariant}}"),),
            width=12,
            about="`make reconcile` tells which rows.",
            alarm=1,
        ),
        Panel(
            "Rows without a partition of their day",
            (Query(worst(DEFAULT_ROWS, _OWN, by=("table",)), "{{table}}"),),
            width=12,
            alarm=1,
        ),
        Panel(
            "Age of the sums of usage",
            (Query(worst(ROLLUP_AGE, _OWN), "oldest process"),),
            "s",
            about="Reads add what is younger.",
            alarm=10,
            width=12,
        ),
        Panel("Summed in", (Query(rate(ROLLUP_ENTRIES, _OWN), "outbox entries"),), "ops", width=12),
    ),
)

BOARD = Board(
    "ledger",
    "kenari: ledger",
    "Wallets, holds, settlements: where the money is.",
    (*top("ledger", asked("ledger"), USES), _MONEY, _HOLDS, _QUEUES, _BOOKS),
)
