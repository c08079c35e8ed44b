"""The limiter's board: admissions and refusals, Valkey, what is granted without it.
Read by deploy.grafana.build.
"""

from deploy.grafana.layout import Board, Panel, Row
from deploy.grafana.queries import Query, halves, mean, of, rate, summed, worst
from deploy.grafana.top_row import Uses, asked, top
from libs.rpc.telemetry import CHECK_BATCH
from services.limiter.telemetry import (
    ADMISSIONS,
    BACKLOG,
    BACKLOG_DROPPED,
    DEGRADED,
    DONES,
    PACED,
    SHADOWED,
    STORE_FAILURES,
    STORE_SECONDS,
)

USES = Uses(tables=True, jobs=True)

_OWN = of("limiter")
_REFUSED = 'outcome!="allowed"'

_LIMITS = Row(
    "Limits",
    (
        Panel("Admissions", (Query(rate(ADMISSIONS, _OWN, by=("subject",)), "{{subject}}"),), "reqps"),
        Panel(
            "Refusals",
            (Query(rate(ADMISSIONS, _OWN, _REFUSED, by=("subject", "outcome")), "{{subject}} {{outcome}}"),),
            "reqps",
        ),
        Panel(
            "Over a limit in shadow",
            (Query(rate(SHADOWED, _OWN, by=("limit",)), "{{limit}}"),),
            "reqps",
            about="What these limits would have refused, were they not set to be watched first.",
        ),
        Panel("Requests that ended", (Query(rate(DONES, _OWN, by=("success",)), "success {{success}}"),), "reqps"),
        Panel("Pacing", halves(PACED, _OWN), "s", about="How long admitted free requests were told to wait."),
    ),
)

_STORE = Row(
    "Valkey",
    (
        Panel("Round trip", halves(STORE_SECONDS, _OWN), "s"),
        Panel("Questions per message", (Query(mean(CHECK_BATCH, _OWN), "mean"),)),
        Panel("No answer", (Query(rate(STORE_FAILURES, _OWN, by=("reason",)), "{{reason}}"),), "ops"),
        Panel(
            "Degraded",
            (
                Query(worst(DEGRADED, _OWN), "1: limits come from local shares"),
                Query(rate(ADMISSIONS, _OWN, 'source="local"'), "local answers / s"),
            ),
            alarm=1,
        ),
        Panel(
            "Backlog",
            (
                Query(summed(BACKLOG, _OWN), "ends not told yet"),
                Query(rate(BACKLOG_DROPPED, _OWN), "forgotten / s"),
            ),
        ),
    ),
)

BOARD = Board(
    "limiter",
    "kenari: limiter",
    "Who may send how much how fast.",
    (*top("limiter", asked("limiter"), USES), _LIMITS, _STORE),
)
