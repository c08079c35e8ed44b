"""The router's board: routes, the state of each upstream, the catalogue.
Read by deploy.grafana.build.
"""

from deploy.grafana.layout import Board, Panel, Row
from deploy.grafana.queries import Query, increase, of, or_zero, rate, summed, worst
from deploy.grafana.top_row import Uses, asked, top
from services.router.telemetry import (
    CATALOG_VERSION,
    DISCOVERED,
    DISCOVERY_FAILURES,
    MODELS,
    PAUSES,
    PROBES,
    ROUTES,
    UPSTREAM_STATE,
)

USES = Uses(consumes=True, tables=True, outbox=True, spool=True, database=True, jobs=True)

_OWN = of("router")

_ROUTES = Row(
    "Upstreams",
    (
        Panel("Routes", (Query(rate(ROUTES, _OWN, by=("outcome",)), "{{outcome}}"),), "reqps"),
        Panel(
            "State of upstreams",
            (Query(worst(UPSTREAM_STATE, _OWN, by=("upstream",)), "{{upstream}}"),),
            about="0 takes requests, 1 waits for a probe, 2 paused.",
            alarm=2,
        ),
        Panel(
            "Pauses within 5 minutes",
            (
                Query(or_zero(increase(PAUSES, _OWN, over="5m")), "all"),
                Query(increase(PAUSES, _OWN, by=("upstream", "reason"), over="5m"), "{{upstream}} {{reason}}"),
            ),
        ),
        Panel("Probes within 5 minutes", (Query(or_zero(increase(PROBES, _OWN, over="5m")), "probes"),)),
    ),
)

_CATALOGUE = Row(
    "Catalogue",
    (
        Panel("Models for sale", (Query(worst(MODELS, _OWN), "models"),)),
        Panel("Version", (Query(worst(CATALOG_VERSION, _OWN), "last change"),)),
        Panel("Discovered", (Query(or_zero(summed(DISCOVERED, _OWN)), "models"),)),
        Panel("Lists not read", (Query(or_zero(rate(DISCOVERY_FAILURES, _OWN)), "failures"),), "ops"),
    ),
)

BOARD = Board(
    "router",
    "kenari: router",
    "Which upstream serves a request, in which order, at which price.",
    (*top("router", asked("router"), USES), _ROUTES, _CATALOGUE),
)
