"""What a run leaves behind tells everything about a request but its words and its secrets.
Logs, events, spans, metrics and files of a kenari that has served requests of every kind.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from libs.core.settings import KafkaSettings
from libs.events import topics
from libs.kafka.reading import read_to_end
from libs.ops.logging import ALLOWED_FIELDS
from tests.observe.traffic import Traffic
from tests.support.system import SERVICES, System

pytestmark = pytest.mark.timeout(300)

ALWAYS = {"time", "level", "service", "message"}
SOMETIMES = {"trace_id", "error", *ALLOWED_FIELDS}


def log_lines(system: System) -> Iterator[str]:
    for name in SERVICES:
        yield from system.services[name].log_file.read_text().splitlines()


@pytest.fixture
def records(system: System, traffic: Traffic) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_lines(system)]


def told(text: str, traffic: Traffic) -> list[str]:
    """Which secrets a text gives away."""
    return [what for what, words in traffic.secrets.items() if words in text]


def test_every_line_of_a_log_is_json_with_known_fields_only(records: list[dict[str, Any]]) -> None:
    assert {record["service"] for record in records} == set(SERVICES)
    for record in records:
        assert record.keys() >= ALWAYS
        assert record.keys() <= ALWAYS | SOMETIMES


def test_a_failed_attempt_is_logged_with_its_request_its_trace_and_its_upstream(
    records: list[dict[str, Any]], traffic: Traffic
) -> None:
    failing = traffic.sent["failing"]
    (line,) = [record for record in records if record.get("request_id") == failing.request_id]
    assert (line["service"], line["level"], line["message"]) == ("edge", "warning", "attempt failed")
    assert (line["upstream_id"], line["status"], line["outcome"]) == ("p2/E2E_PROVIDER_KEY", 500, "failed")
    assert line["trace_id"] == failing.trace_id


def test_requests_that_go_well_log_nothing(records: list[dict[str, Any]], traffic: Traffic) -> None:
    failing = {answer.headers["x-request-id"] for name, answer in traffic.others.items() if name.startswith("failing")}
    named = {record["request_id"] for record in records if "request_id" in record}
    assert named <= {*failing, traffic.sent["failing"].request_id}


def test_logs_give_nothing_away(system: System, traffic: Traffic) -> None:
    assert told("\n".join(log_lines(system)), traffic) == []


def test_spans_give_nothing_away(system: System, traffic: Traffic) -> None:
    spans = system.traces().read_text()
    assert traffic.sent["paid"].trace_id in spans
    assert told(spans, traffic) == []


def test_metrics_give_nothing_away(system: System, traffic: Traffic) -> None:
    for name in SERVICES:
        metrics = httpx.get(f"http://{system.ports.ops(name)}/metrics").text
        assert told(metrics, traffic) == []
        assert traffic.person.account_id not in metrics
        assert traffic.person.key_id not in metrics


async def test_events_give_nothing_away(system: System, traffic: Traffic) -> None:
    settings = KafkaSettings(bootstrap=system.kafka.address)
    events = [received async for received in read_to_end(settings, topics.ALL, 0)]
    assert {received.topic for received in events} >= {"edge.requests.v1", "edge.attempts.v1", "edge.usage.v1"}
    told_by = {received.topic: told(json.dumps(received.envelope.data), traffic) for received in events}
    assert {topic: what for topic, what in told_by.items() if what} == {}


def test_no_file_of_the_run_holds_a_secret(system: System, traffic: Traffic) -> None:
    """Databases, Valkey's and Kafka's files, spools, logs: nothing is stored that was not meant to be."""
    words = {what: text.encode() for what, text in traffic.secrets.items()}
    directory = system.traces().parent.parent
    found = {
        (what, str(file.relative_to(directory)))
        for file in _files(directory)
        for what, text in words.items()
        if text in file.read_bytes()
    }
    assert found == set()


def _files(directory: Path) -> Iterator[Path]:
    for file in directory.rglob("*"):
        # Kafka reserves room for its indexes: files with nothing in them that are long to read.
        if file.is_file() and not file.is_symlink() and file.stat().st_blocks:
            yield file
