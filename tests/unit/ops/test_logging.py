"""Logs: one line of JSON per record, with what may be shown and nothing else.
Run by pytest; no servers needed.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libs.core.settings import TelemetrySettings
from libs.ops.logging import ALLOWED_FIELDS, JsonFormatter, configure
from libs.ops.tracing import Tracing

ALWAYS = {"time", "level", "service", "message"}


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)


def line(
    message: str = "said", service: str | None = "edge", name: str = "kenari.edge", **extra: Any
) -> dict[str, Any]:
    record = logging.getLogger(name).makeRecord(name, logging.INFO, "f", 1, message, (), None, extra=extra)
    text = JsonFormatter(service).format(record)
    assert "\n" not in text
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_a_line_carries_only_what_is_on_the_list() -> None:
    written = line(request_id="r1", body="secret prompt", key="kn-secret", headers={"authorization": "x"}, dsn="p@ss")
    assert set(written) == ALWAYS | {"request_id"}


def test_every_field_on_the_list_is_written() -> None:
    fields: dict[str, Any] = dict.fromkeys(ALLOWED_FIELDS, 1)
    written = line(**fields)
    assert set(written) == ALWAYS | set(ALLOWED_FIELDS)


def test_absent_values_leave_no_field() -> None:
    assert set(line(request_id=None, count=0)) == ALWAYS | {"count"}


@pytest.mark.parametrize("text", ["two\nlines", 'a "quote"', "\ud800 alone", "é ☃ \u2028"])
def test_any_text_stays_one_line_that_can_be_written_and_read(text: str) -> None:
    assert line(model=text)["model"] == text
    record = logging.getLogger("kenari").makeRecord("kenari", logging.INFO, "f", 1, text, (), None)
    JsonFormatter("edge").format(record).encode("ascii")


def test_a_logger_names_its_service_when_the_process_holds_several() -> None:
    assert line(service=None, name="kenari.ledger")["service"] == "ledger"
    assert line(service=None, name="aiokafka.consumer")["service"] == "kenari"


def test_lines_inside_a_span_carry_its_trace(tmp_path: Path) -> None:
    tracing = Tracing("edge", TelemetrySettings(trace_file=tmp_path / "spans"))
    with tracing.root("request") as span:
        assert span is not None
        assert line()["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    assert "trace_id" not in line()
    tracing.shutdown()


def test_an_exception_is_told_in_the_same_line(root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure("INFO", "edge")
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("kenari.edge").exception("failed", extra={"request_id": "r1"})
    logging.getLogger("aiokafka").warning("noise")
    (written,) = capsys.readouterr().err.splitlines()
    parsed = json.loads(written)
    assert (parsed["level"], parsed["request_id"]) == ("error", "r1")
    assert "ValueError: broken" in parsed["error"]
