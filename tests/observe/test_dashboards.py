"""The dashboards draw what the services declare, are up to date, and get an answer to every query.
The answers come from a real Prometheus that scraped a running kenari under requests of every kind.
"""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.generate.files import Generated
from deploy.grafana.boards import accounts, edge, ledger, limiter, router
from deploy.grafana.build import BOARDS, FOLDER, generate, main
from deploy.grafana.top_row import Uses
from libs.db.telemetry import UP
from libs.kafka.telemetry import LAG, OUTBOX_OLDEST, SPOOL_BYTES, TABLE_AGE
from libs.ops.metrics import Spec
from libs.service.component import JOB_SECONDS
from tests.observe.declared import series, specs, undeclared
from tests.observe.prometheus import ROOT, PrometheusServer
from tests.observe.traffic import Traffic
from tests.support.system import SERVICES, System

pytestmark = pytest.mark.timeout(300)

FILES = sorted((ROOT / FOLDER).glob("*.json"))
WINDOW = "30s"

USES: dict[str, Uses] = {
    "accounts": accounts.USES, "edge": edge.USES, "ledger": ledger.USES, "limiter": limiter.USES, "router": router.USES,
}  # fmt: skip
SIGNS: dict[str, Spec] = {
    "consumes": LAG, "tables": TABLE_AGE, "outbox": OUTBOX_OLDEST, "spool": SPOOL_BYTES, "database": UP,
    "jobs": JOB_SECONDS,
}  # fmt: skip


def panels(file: Path) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(file.read_text())["panels"] if panel["type"] != "row"]


def queries() -> list[Any]:
    return [
        pytest.param(target["expr"], id=f"{file.stem}: {panel['title']} {target['refId']}")
        for file in FILES
        for panel in panels(file)
        for target in panel["targets"]
    ]


def test_the_committed_dashboards_are_those_the_code_draws() -> None:
    assert generate().stale() == []


def test_check_tells_a_stale_file_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, path = generate(), f"{FOLDER}/edge.json"
    other = Generated(fresh.folders, fresh.suffixes, {**fresh.texts, path: "{}\n"})
    monkeypatch.setattr("deploy.grafana.build.generate", lambda: other)
    assert main(["--check"]) == 1
    assert (ROOT / path).read_text() == fresh.texts[path]


def test_there_is_a_board_for_every_service_and_one_for_all() -> None:
    assert {board.name for board in BOARDS} == {*SERVICES, "overview"}
    assert [file.stem for file in FILES] == sorted(board.name for board in BOARDS)


@pytest.mark.parametrize("expr", queries())
def test_a_query_names_declared_metrics_only(expr: str) -> None:
    assert undeclared(expr) == set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_legend_names_labels_that_its_query_keeps(file: Path) -> None:
    for panel in panels(file):
        for target in panel["targets"]:
            kept = {label.strip() for by in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in by.split(",")}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_panels_stand_side_by_side_within_the_page(file: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(file.read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.parametrize("expr", queries())
def test_every_query_gets_an_answer(prometheus: PrometheusServer, expr: str) -> None:
    assert prometheus.instant(expr.replace("$__rate_interval", WINDOW)), "no data"


@pytest.mark.parametrize("service", SERVICES)
def test_a_board_shows_of_kafka_stores_and_jobs_what_its_service_has(system: System, service: str) -> None:
    scraped = httpx.get(f"http://{system.ports.ops(service)}/metrics").text
    has = {use for use, spec in SIGNS.items() if re.search(rf"^{series(spec)[0]}[ {{]", scraped, re.MULTILINE)}
    assert has == {use for use in SIGNS if getattr(USES[service], use)}


def test_every_declared_metric_is_counted_somewhere(system: System, traffic: Traffic) -> None:
    scraped = "".join(httpx.get(f"http://{system.ports.ops(name)}/metrics").text for name in SERVICES)
    families = set(re.findall(r"^# TYPE (\S+) ", scraped, re.MULTILINE))
    missing = {spec.name for spec in specs() if not families & {spec.exported, f"{spec.exported}_total"}}
    assert missing == set()


def test_the_figures_are_those_of_the_requests(prometheus: PrometheusServer, traffic: Traffic) -> None:
    def value(expr: str) -> float:
        (sample,) = prometheus.instant(expr)
        return float(sample["value"][1])

    answers = [*traffic.others.values(), *(sent.answer for sent in traffic.sent.values())]
    chats = [answer for answer in answers if answer.request.method == "POST"]
    assert value("sum(kenari_edge_request_seconds_count)") == len(chats)
    refused = [answer for answer in chats if answer.status_code == 503]
    assert value('sum(kenari_edge_request_seconds_count{status="503"})') == len(refused)
    assert value('kenari_ledger_reservations_total{result="insufficient_balance"}') == 1
    assert value("kenari_ledger_conflicts_total") == 0
    assert value("sum(kenari_ledger_invariants_broken)") == 0
    assert value("max(max_over_time(kenari_router_upstream_state[10m]))") == 2
