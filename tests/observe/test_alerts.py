"""Every alert fires for what it is about and for nothing else, names declared metrics, and leads to a runbook.
Rules are tried by promtool on made-up series, and once on a Prometheus that watched a running kenari.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observe.declared import undeclared
from tests.observe.prometheus import CONFIG, ROOT, RULES, PrometheusServer, promtool

pytestmark = pytest.mark.timeout(300)

ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}


@dataclass(frozen=True)
class Case:
    """Series by name as promtool writes them, one value every 15 s for 5 minutes: in trouble, and well."""

    trouble: dict[str, str]
    well: dict[str, str]


def gauge(name: str, bad: float, good: float = 0) -> Case:
    """A gauge that stays at a bad or at a good value."""
    return Case({name: f"{bad}x20"}, {name: f"{good}x20"})


def counter(name: str, per_step: float = 1) -> Case:
    """A counter that grows, or stands where it began."""
    return Case({name: f"0+{per_step}x20"}, {name: "0x20"})


def share(of: str, bad: str, good: str, bad_steps: tuple[int, int], good_steps: tuple[int, int]) -> Case:
    """Two counters of one metric whose rates stand in a bad or a good proportion."""
    trouble, well = (
        {f"{of}{{{bad}}}": f"0+{steps[0]}x20", f"{of}{{{good}}}": f"0+{steps[1]}x20"}
        for steps in (bad_steps, good_steps)
    )
    return Case(trouble, well)


_ON = 'service="ledger",instance="ledger:7204"'
_TOPIC = f'{{{_ON},topic="edge.usage.v1"}}'

CASES: dict[str, Case] = {
    "ProcessDown": gauge('up{job="kenari",service="edge",instance="edge:7200"}', 0, 1),
    "ServiceNotReady": gauge(f"kenari_service_problems{{{_ON}}}", 2),
    "EventsReadLate": gauge(f"kenari_kafka_consumer_oldest_seconds{_TOPIC}", 61, 59),
    "ConsumerStopped": gauge(f"kenari_kafka_consumer_stopped{_TOPIC}", 1),
    "DeadLetters": Case(
        {f'kenari_kafka_consumer_records_total{{{_ON},topic="t",outcome="dead"}}': "0x18 1 1"},
        {f'kenari_kafka_consumer_records_total{{{_ON},topic="t",outcome="handled"}}': "0+5x20"},
    ),
    "TableOld": gauge(f"kenari_kafka_table_age_seconds{_TOPIC}", 16, 6),
    "OutboxWaits": gauge(f"kenari_kafka_outbox_oldest_seconds{{{_ON}}}", 31, 1),
    "DatabaseAway": gauge(f"kenari_db_up{{{_ON}}}", 0, 1),
    "RequestsFail": share("kenari_edge_request_seconds_count", 'status="503"', 'status="200"', (6, 94), (4, 96)),
    # One spooled batch that goes out at once is no alarm.
    "SpoolGrows": Case({"kenari_kafka_spool_bytes": "0+1000x20"}, {"kenari_kafka_spool_bytes": "0x17 5000 0 0"}),
    "KeysStale": gauge("kenari_edge_keys_age_seconds", 16, 6),
    "LimiterAbsent": counter('kenari_edge_limiter_absent_total{decision="allowed"}'),
    "SettlementsLeftToEvents": share(
        "kenari_edge_settlements_total", 'outcome="left_to_event"', 'outcome="answered"', (2, 98), (1, 199)
    ),
    "UpstreamPaused": gauge('kenari_router_upstream_state{upstream="p/K"}', 2, 1),
    "AllUpstreamsPaused": counter('kenari_router_routes_total{outcome="all_providers_failed"}'),
    "LimitsFromLocalShares": gauge("kenari_limiter_store_degraded", 1),
    "LimiterBacklog": gauge("kenari_limiter_backlog_size", 10_001, 10_000),
    "ChangesOfKeysNotHeard": gauge("kenari_accounts_watch_listening", 0, 1),
    "BooksBroken": gauge('kenari_ledger_invariants_broken{invariant="charged"}', 1),
    "SettlementConflicts": Case(
        {"kenari_ledger_conflicts_total": "0x18 1 1"}, {"kenari_ledger_conflicts_total": "0x20"}
    ),
    "HoldsOverdue": gauge("kenari_ledger_holds_overdue", 1),
    "LedgerQueueLong": gauge('kenari_ledger_queue_length{shard="0"}', 1_001, 1_000),
    "UsageSumsOld": gauge("kenari_ledger_rollup_age_seconds", 11, 9),
    "PricesMissing": counter('kenari_ledger_price_misses_total{found="nowhere"}'),
    "RowsWithoutPartition": gauge('kenari_ledger_partitions_default_rows{table="hold"}', 1),
}


def test_every_alert_is_tried() -> None:
    assert CASES.keys() == ALERTS.keys()


def test_alerts_fire_in_trouble_and_only_then(tmp_path: Path) -> None:
    tests = [
        {
            "interval": "15s",
            "name": f"{alert} {'in trouble' if fires else 'when all is well'}",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": "5m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, case in CASES.items()
        for fires, series in ((True, case.trouble), (False, case.well))
    ]
    file = tmp_path / "alerts.test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": tests}))
    promtool("test", "rules", str(file))


def test_the_shipped_configuration_is_valid() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "config", "--lint-fatal", str(CONFIG))


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_names_declared_metrics_only(alert: str) -> None:
    assert undeclared(ALERTS[alert]["expr"]) == set()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_leads_to_a_heading_of_a_runbook(alert: str) -> None:
    file, _, anchor = ALERTS[alert]["annotations"]["runbook"].partition("#")
    text = (ROOT / file).read_text()
    runbook = text.partition("\n## Runbook\n")[2].partition("\n## ")[0]
    headings = re.findall(r"^### (.+)$", runbook, re.MULTILINE)
    assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_a_running_kenari_fires_nothing_about_money_events_or_tables(prometheus: PrometheusServer) -> None:
    rules = prometheus.rules()
    assert {rule["name"] for rule in rules} == ALERTS.keys()
    assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"} == {}
    # Three failures at one provider are part of what was sent.
    expected = {"UpstreamPaused", "AllUpstreamsPaused", "RequestsFail"}
    assert {rule["name"] for rule in rules if rule["state"] == "firing"} <= expected
