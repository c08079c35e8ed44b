"""All services side by side, and the few figures that say whether kenari is well.
Read by deploy.grafana.build.
"""

from deploy.grafana.layout import Board, Panel, Row
from deploy.grafana.queries import Query, halves, increase, rate, selector, summed, worst
from deploy.grafana.top_row import TABLE_TOO_OLD_S
from libs.core.money import PER_RUPIAH
from libs.kafka.telemetry import CONSUMED, LAG, OLDEST, OUTBOX_OLDEST, SPOOL_BYTES, TABLE_AGE
from libs.ops.telemetry import BUILD
from libs.rpc.telemetry import CHECKS_ASKED
from libs.service.component import PROBLEMS
from services.edge.telemetry import LIVE, REQUESTS
from services.ledger.telemetry import BROKEN, CHARGED, CONFLICTS, HOLDS_OPEN, SETTLEMENTS
from services.limiter.telemetry import DEGRADED
from services.router.telemetry import UPSTREAM_STATE

_BY_SERVICE = ("service",)
_OK, _OURS, _THEIRS = 'status="200"', 'status=~"5.."', 'status=~"4..",status!="499"'
_DEAD, _FAILED = 'outcome="dead"', 'outcome="failed"'

_CLIENTS = Row(
    "What clients see",
    (
        Panel("Rate", (Query(rate(REQUESTS, by=("status",)), "{{status}}"),), "reqps", stacked=True),
        Panel(
            "Errors",
            (
                Query(f"{rate(REQUESTS, _OURS)} / {rate(REQUESTS)}", "share of 5xx"),
                Query(f"{rate(REQUESTS, _THEIRS)} / {rate(REQUESTS)}", "share of 4xx"),
            ),
            "percentunit",
        ),
        Panel("Latency", halves(REQUESTS, _OK), "s"),
        Panel("Live requests", (Query(summed(LIVE), "being served"),)),
    ),
)

_MONEY = Row(
    "Money",
    (
        Panel("Charged per minute", (Query(f"{increase(CHARGED)} / {PER_RUPIAH}", "Rp"),), "currencyIDR"),
        Panel("Settlements", (Query(rate(SETTLEMENTS, by=("kind",)), "{{kind}}"),), "ops"),
        Panel("Holds open", (Query(worst(HOLDS_OPEN), "open"),)),
        Panel(
            "The books",
            (
                Query(increase(CONFLICTS, over="1h"), "conflicts within an hour"),
                Query(summed(BROKEN), "rows that break an invariant"),
            ),
            alarm=1,
        ),
    ),
)

_SERVICES = Row(
    "Services",
    (
        Panel("Not ready because of", (Query(worst(PROBLEMS, by=_BY_SERVICE), "{{service}}"),), alarm=1),
        Panel("Processes up", (Query('sum by (service) (up{job="kenari"})', "{{service}}"),)),
        Panel("Questions on check streams", (Query(rate(CHECKS_ASKED, by=("peer",)), "{{peer}}"),), "reqps"),
        Panel(
            "Questions without an answer",
            (Query(rate(CHECKS_ASKED, _FAILED, by=("peer",)), "{{peer}}"),),
            "reqps",
        ),
        Panel("CPU", (Query("sum by (service) (rate(process_cpu_seconds_total[$__rate_interval]))", "{{service}}"),)),
        Panel("Memory", (Query("sum by (service) (process_resident_memory_bytes)", "{{service}}"),), "bytes"),
        Panel("State of upstreams", (Query(worst(UPSTREAM_STATE, by=("upstream",)), "{{upstream}}"),), alarm=2),
        Panel("Limits without Valkey", (Query(worst(DEGRADED), "1: local shares"),), alarm=1),
    ),
)

_KAFKA = Row(
    "What waits",
    (
        Panel("Consumer lag", (Query(summed(LAG, by=("service", "topic")), "{{service}} {{topic}}"),)),
        Panel(
            "Oldest unprocessed event",
            (Query(worst(OLDEST, by=("service", "topic")), "{{service}} {{topic}}"),),
            "s",
            alarm=60,
        ),
        Panel(
            "Dead letters within an hour",
            (Query(increase(CONSUMED, _DEAD, by=("service", "topic"), over="1h"), "{{service}} {{topic}}"),),
            alarm=1,
        ),
        Panel(
            "Table age",
            (Query(worst(TABLE_AGE, by=("service", "topic")), "{{service}} {{topic}}"),),
            "s",
            alarm=TABLE_TOO_OLD_S,
        ),
        Panel("Oldest outbox row", (Query(worst(OUTBOX_OLDEST, by=_BY_SERVICE), "{{service}}"),), "s", alarm=30),
        Panel("Spool", (Query(summed(SPOOL_BYTES, by=_BY_SERVICE), "{{service}}"),), "bytes", alarm=1),
        Panel("Build", (Query(f"count by (service, version) ({selector(BUILD)})", "{{service}} {{version}}"),)),
    ),
)

BOARD = Board(
    "overview",
    "kenari: overview",
    "Whether all is well, and where to look when it is not.",
    (_CLIENTS, _MONEY, _SERVICES, _KAFKA),
)
