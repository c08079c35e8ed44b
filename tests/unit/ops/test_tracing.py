"""Spans: nothing for what is not sampled, the right parent for what is, whatever a client sends.
Run by pytest; no servers needed.
"""

import asyncio
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from libs.core.errors import Transient
from libs.core.settings import TelemetrySettings
from libs.ops.tracing import Tracing, current_trace_id, current_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def spans(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "spans.jsonl"


@pytest.fixture
def tracing(spans: Path) -> Tracing:
    return Tracing("edge", TelemetrySettings(trace_file=spans))


def test_an_incoming_trace_goes_on(tracing: Tracing, spans: Path) -> None:
    with tracing.span("chat", parent=SAMPLED, kind="server", attributes={"kenari.tokens": 3}):
        assert current_trace_id() == TRACE
    tracing.shutdown()
    (row,) = rows(spans)
    assert (row["trace_id"], row["parent_id"], row["service"]) == (TRACE, SPAN, "edge")
    assert (row["kind"], row["attributes"]) == ("server", {"kenari.tokens": 3})
    assert row["end_ns"] >= row["start_ns"]


def test_spans_inside_a_span_hang_under_it(tracing: Tracing, spans: Path) -> None:
    with tracing.root("outer"), tracing.span("inner"):
        with tracing.span("innermost"):
            pass
        with tracing.span("elsewhere", parent=SAMPLED):
            pass
    tracing.shutdown()
    by_name = {row["name"]: row for row in rows(spans)}
    assert by_name["outer"]["parent_id"] is None
    assert by_name["inner"]["parent_id"] == by_name["outer"]["span_id"]
    assert by_name["innermost"]["parent_id"] == by_name["inner"]["span_id"]
    assert by_name["elsewhere"]["parent_id"] == SPAN
    assert len({by_name[name]["trace_id"] for name in ("outer", "inner", "innermost")}) == 1


@pytest.mark.parametrize(
    "parent",
    [
        f"00-{TRACE}-{SPAN}-00",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-+{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}- 1",
        "00-x-y-01",
        "----",
        "x" * 10_000,
    ],
)
def test_what_is_not_a_sampled_trace_makes_no_span(tracing: Tracing, spans: Path, parent: str) -> None:
    with tracing.span("chat", parent=parent) as span:
        assert span is None
        assert current_traceparent() == ""
    tracing.shutdown()
    assert rows(spans) == []


def test_later_versions_of_the_header_are_understood(tracing: Tracing, spans: Path) -> None:
    with tracing.span("chat", parent=f"cc-{TRACE}-{SPAN}-03-what-ever"):
        assert current_trace_id() == TRACE
        assert current_traceparent().startswith("00-")
    tracing.shutdown()
    assert rows(spans)[0]["parent_id"] == SPAN


def test_without_a_parent_a_span_makes_nothing(tracing: Tracing, spans: Path) -> None:
    first, second = tracing.span("one"), tracing.span("two", parent="")
    assert first is second
    with first as span, second:
        assert span is None
    tracing.shutdown()
    assert rows(spans) == []


def test_without_an_exporter_nothing_is_sampled() -> None:
    tracing = Tracing("edge", TelemetrySettings())
    assert not tracing.sample()
    with tracing.root("request") as root, tracing.span("inner", parent=SAMPLED) as inner:
        assert root is inner is None
        assert current_traceparent() == ""


def test_the_ratio_decides_over_new_traces_only(spans: Path) -> None:
    never = Tracing("edge", TelemetrySettings(trace_file=spans, trace_ratio=0))
    assert not any(never.sample() for _ in range(100))
    with never.span("chat", parent=SAMPLED) as span:
        assert span is not None
    half = Tracing("edge", TelemetrySettings(trace_file=spans, trace_ratio=0.5))
    assert 300 < sum(half.sample() for _ in range(1000)) < 700
    never.shutdown()
    half.shutdown()


def test_variables_of_the_tracing_library_decide_nothing(monkeypatch: pytest.MonkeyPatch, spans: Path) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracing = Tracing("edge", TelemetrySettings(trace_file=spans))
    with tracing.root("request"):
        pass
    tracing.shutdown()
    assert len(rows(spans)) == 1


@pytest.mark.parametrize("error", [ValueError("secret text"), asyncio.CancelledError()])
def test_a_failed_span_says_so_without_the_text(tracing: Tracing, spans: Path, error: BaseException) -> None:
    with pytest.raises(type(error)), tracing.root("request"):
        raise error
    assert current_traceparent() == ""
    tracing.shutdown()
    (row,) = rows(spans)
    assert row["status"] == "error"
    assert "secret" not in spans.read_text()


async def test_tasks_side_by_side_do_not_see_each_others_spans(tracing: Tracing, spans: Path) -> None:
    async def request(name: str) -> None:
        with tracing.root(name):
            await asyncio.sleep(0.01)
            with tracing.span(f"{name}-inner"):
                await asyncio.sleep(0.01)

    await asyncio.gather(*(request(f"r{number}") for number in range(20)))
    tracing.shutdown()
    by_name = {row["name"]: row for row in rows(spans)}
    for number in range(20):
        assert by_name[f"r{number}-inner"]["parent_id"] == by_name[f"r{number}"]["span_id"]


def test_services_that_share_a_file_write_whole_lines(spans: Path) -> None:
    services = [Tracing(f"s{number}", TelemetrySettings(trace_file=spans)) for number in range(4)]

    def work(tracing: Tracing) -> None:
        for _ in range(300):
            with tracing.root("request", attributes={"text": "x" * 500}):
                pass
        tracing.shutdown()

    threads = [threading.Thread(target=work, args=(tracing,)) for tracing in services]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(spans)) == 1200


def test_a_collector_that_never_answers_holds_up_the_end_for_seconds_only() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        tracing = Tracing("edge", TelemetrySettings(otlp_endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}"))
        with tracing.root("request"):
            pass
        started = time.monotonic()
        tracing.shutdown()
        assert time.monotonic() - started < 8


def test_a_request_that_says_not_sampled_is_obeyed(tracing: Tracing, spans: Path) -> None:
    with tracing.serve("GET /", f"00-{TRACE}-{SPAN}-00") as span:
        assert span is None
    tracing.shutdown()
    assert rows(spans) == []


@pytest.mark.parametrize("incoming", [None, "", "00-x-y-01", f"00-{'0' * 32}-{SPAN}-01"])
def test_a_request_without_a_readable_trace_starts_one(tracing: Tracing, spans: Path, incoming: str | None) -> None:
    with tracing.serve("GET /", incoming):
        pass
    tracing.shutdown()
    (row,) = rows(spans)
    assert (row["parent_id"], row["kind"]) == (None, "server")


def test_a_request_in_a_trace_goes_on_with_it(tracing: Tracing, spans: Path) -> None:
    with tracing.serve("GET /", SAMPLED):
        pass
    tracing.shutdown()
    assert rows(spans)[0]["parent_id"] == SPAN


def test_a_failed_span_names_the_reason_and_not_the_text(tracing: Tracing, spans: Path) -> None:
    with pytest.raises(Transient), tracing.root("call"):
        raise Transient("what was said", reason="broker_away")
    tracing.shutdown()
    (row,) = rows(spans)
    assert (row["status"], row["attributes"]) == ("error", {"error.type": "broker_away"})
