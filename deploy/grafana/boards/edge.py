"""The edge's board: requests by what clients were told, providers, keys, settlements, what runs without a limiter.
Read by deploy.grafana.build.
"""

from deploy.grafana.layout import Board, Panel, Row
from deploy.grafana.queries import Query, halves, lowest, of, or_zero, quantile, rate, summed, worst
from deploy.grafana.top_row import TABLE_TOO_OLD_S, Uses, top
from libs.kafka.telemetry import PRODUCED, QUEUED
from libs.rpc.telemetry import CHECK_STREAM_UP, CHECKS_ASKED, CHECKS_WAITING
from services.edge.telemetry import (
    ATTEMPTS,
    BODY_BYTES,
    DEGRADED,
    FIRST_BYTE,
    IDEMPOTENCY,
    KEY_LOOKUPS,
    KEYS_AGE,
    LIVE,
    OVERHEAD,
    REFUSALS,
    REFUSED_HERE,
    REQUESTS,
    SETTLEMENTS,
    TOKENS,
)

USES = Uses(tables=True, spool=True, jobs=True)

_OWN = of("edge")

_SIGNALS = (
    Panel("Rate", (Query(rate(REQUESTS, _OWN, by=("status",)), "{{status}}"),), "reqps", stacked=True),
    Panel(
        "Errors",
        (
            Query(rate(REQUESTS, _OWN, 'status=~"5.."'), "ours (5xx)"),
            Query(rate(REQUESTS, _OWN, 'status=~"4..",status!="499"'), "theirs (4xx)"),
            Query(rate(REQUESTS, _OWN, 'status="499"'), "clients that left"),
        ),
        "reqps",
    ),
    Panel("Latency", halves(REQUESTS, _OWN, 'status="200"'), "s", about="Whole answers, the provider's time included."),
)

_REQUESTS = Row(
    "Requests",
    (
        Panel("First byte", halves(FIRST_BYTE, _OWN), "s", about="From the request to the first content."),
        Panel(
            "Before the provider",
            halves(OVERHEAD, _OWN),
            "s",
            about="From the request to the first call of a provider: key, body, limiter, router, ledger.",
        ),
        Panel("Live requests", (Query(summed(LIVE, _OWN), "being served"),)),
        Panel("Refusals", (Query(rate(REFUSALS, _OWN, by=("code",)), "{{code}}"),), "reqps"),
        Panel("Tokens", (Query(rate(TOKENS, _OWN, by=("direction",)), "{{direction}}"),), "short"),
        Panel("Idempotency keys", (Query(rate(IDEMPOTENCY, _OWN, by=("state",)), "{{state}}"),), "reqps"),
        Panel("Large bodies", (Query(summed(BODY_BYTES, _OWN), "held"),), "bytes"),
    ),
)

_PROVIDERS = Row(
    "Providers",
    (
        Panel("Attempts", (Query(rate(ATTEMPTS, _OWN, by=("outcome",)), "{{outcome}}"),), "reqps", width=12),
        Panel(
            "Duration of attempts, p99",
            (Query(quantile(0.99, ATTEMPTS, _OWN, by=("outcome",)), "{{outcome}}"),),
            "s",
            width=12,
        ),
    ),
)

_PEERS = Row(
    "Peers",
    (
        Panel("Questions, p99", (Query(quantile(0.99, CHECKS_ASKED, _OWN, by=("peer",)), "{{peer}}"),), "s"),
        Panel(
            "Questions without an answer",
            (Query(rate(CHECKS_ASKED, _OWN, 'outcome="failed"', by=("peer",)), "{{peer}}"),),
            "reqps",
        ),
        Panel("Questions waiting", (Query(summed(CHECKS_WAITING, _OWN, by=("peer",)), "{{peer}}"),)),
        Panel("Check streams", (Query(lowest(CHECK_STREAM_UP, _OWN, by=("peer",)), "{{peer}}"),)),
        Panel(
            "Without the limiter",
            (Query(rate(DEGRADED, _OWN, by=("decision",)), "{{decision}}"),),
            "reqps",
            about="Requests decided by the edge alone, because the limiter did not answer.",
        ),
        Panel(
            "Refused without asking",
            (Query(rate(REFUSED_HERE, _OWN), "refused / s"),),
            "reqps",
            about="Floods: the limiter had refused the same a moment before.",
        ),
        Panel(
            "Settlements",
            (Query(rate(SETTLEMENTS, _OWN, by=("outcome",)), "{{outcome}}"),),
            "reqps",
            about="Left to event: the ledger did not answer at once and learns it from Kafka.",
        ),
        Panel("Keys: age", (Query(worst(KEYS_AGE, _OWN), "since accounts was heard"),), "s", alarm=TABLE_TOO_OLD_S),
        Panel("Keys found in", (Query(rate(KEY_LOOKUPS, _OWN, by=("source",)), "{{source}}"),), "reqps"),
    ),
)

_EVENTS = Row(
    "Events",
    (
        Panel(
            "Records",
            (Query(rate(PRODUCED, _OWN, by=("topic", "outcome")), "{{topic}} {{outcome}}"),),
            "ops",
            width=12,
        ),
        Panel(
            "Shed",
            (Query(or_zero(rate(PRODUCED, _OWN, 'outcome="shed"')), "given up"),),
            "ops",
            about="Only requests and attempts are ever given up, never usage.",
        ),
        Panel("Waiting in memory", (Query(summed(QUEUED, _OWN), "queued"),), "bytes"),
    ),
)

BOARD = Board(
    "edge",
    "kenari: edge",
    "Public HTTP: who calls, what they are told, how providers answer.",
    (*top("edge", _SIGNALS, USES), _REQUESTS, _PROVIDERS, _PEERS, _EVENTS),
)
