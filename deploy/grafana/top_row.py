"""The rows that every service's board begins with: rate, errors, latency, then what Kafka and the tables owe.
Called by the boards of the services.
"""

from dataclasses import dataclass

from deploy.grafana.layout import Panel, Row
from deploy.grafana.queries import Query, halves, increase, lowest, of, or_zero, rate, selector, summed, worst
from libs.db.telemetry import UP
from libs.kafka.telemetry import CONSUMED, LAG, OLDEST, OUTBOX_OLDEST, SPOOL_BYTES, TABLE_AGE
from libs.ops.telemetry import BUILD
from libs.rpc.telemetry import CHECKS_ASKED, CHECKS_SERVED, SERVED
from libs.service.component import JOB_FAILURES, PROBLEMS

TABLE_TOO_OLD_S = 15.0
_DEAD = 'outcome="dead"'


@dataclass(frozen=True)
class Uses:
    """What of the shared parts a service has; a test compares it with what the running service exports."""

    consumes: bool = False
    tables: bool = False
    outbox: bool = False
    spool: bool = False
    database: bool = False
    jobs: bool = False


def asked(service: str) -> tuple[Panel, Panel, Panel]:
    """Rate, errors and latency of a service that answers check streams, as those who ask see it, and unary calls."""
    own, peer, failed = of(service), f'peer="{service}"', 'outcome="failed"'
    return (
        Panel(
            "Rate",
            (
                Query(rate(CHECKS_SERVED, own, by=("kind",)), "{{kind}}"),
                Query(or_zero(rate(SERVED, own)), "unary calls"),
            ),
            "reqps",
        ),
        Panel(
            "Errors",
            (
                Query(rate(CHECKS_ASKED, peer, failed), "questions without an answer"),
                Query(or_zero(rate(SERVED, own, 'code!="OK"')), "unary calls"),
            ),
            "reqps",
            about="Questions are counted by those who ask. Refusals are answers, not errors.",
        ),
        Panel("Latency", halves(CHECKS_ASKED, peer, 'outcome="answered"'), "s", about="As those who ask see it."),
    )


def called(service: str) -> tuple[Panel, Panel, Panel]:
    """Rate, errors and latency of a service that answers unary calls only."""
    own = of(service)
    return (
        Panel("Rate", (Query(rate(SERVED, own, by=("method",)), "{{method}}"),), "reqps"),
        Panel("Errors", (Query(or_zero(rate(SERVED, own, 'code!="OK"')), "calls"),), "reqps"),
        Panel("Latency", halves(SERVED, own), "s"),
    )


def top(service: str, signals: tuple[Panel, Panel, Panel], uses: Uses) -> tuple[Row, Row]:
    """The common rows: ``signals`` are rate, errors and latency."""
    own = of(service)
    ready = Panel(
        "Not ready because of",
        (Query(worst(PROBLEMS, own), "problems"), Query(f"count(up{{{own}}} == 0) or vector(0)", "processes down")),
        kind="stat",
        width=3,
        about="0 and 0 when all is well; /ready of the process says which.",
        alarm=1,
    )
    build = Panel(
        "Build",
        (Query(f"count by (version) ({selector(BUILD, '', own)})", "{{version}}"),),
        kind="stat",
        width=3,
        about="Processes per version.",
    )
    return Row(service, (*signals, ready, build)), Row("What waits", _waiting(own, uses))


def _waiting(own: str, uses: Uses) -> tuple[Panel, ...]:
    panels: list[Panel] = []
    if uses.consumes:
        panels += [
            Panel("Consumer lag", (Query(summed(LAG, own, by=("topic",)), "{{topic}}"),)),
            Panel("Oldest unprocessed event", (Query(worst(OLDEST, own, by=("topic",)), "{{topic}}"),), "s", alarm=60),
            Panel(
                "Dead letters within an hour",
                (Query(increase(CONSUMED, own, _DEAD, by=("topic",), over="1h"), "{{topic}}"),),
                about="`make redeliver` tries them again.",
                alarm=1,
            ),
        ]
    if uses.tables:
        panels.append(
            Panel(
                "Table age",
                (Query(worst(TABLE_AGE, own, by=("topic",)), "{{topic}}"),),
                "s",
                about="Since the owner of the table was last heard; it beats every 5 s.",
                alarm=TABLE_TOO_OLD_S,
            )
        )
    if uses.outbox:
        panels.append(Panel("Oldest outbox row", (Query(worst(OUTBOX_OLDEST, own), "not published"),), "s", alarm=30))
    if uses.spool:
        panels.append(Panel("Spool", (Query(summed(SPOOL_BYTES, own), "waiting for the broker"),), "bytes", alarm=1))
    if uses.database:
        panels.append(Panel("Database answers", (Query(lowest(UP, own), "1: yes"),)))
    if uses.jobs:
        panels.append(Panel("Failed runs of jobs", (Query(rate(JOB_FAILURES, own, by=("job",)), "{{job}}"),), "ops"))
    return tuple(panels)
