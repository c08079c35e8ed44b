"""What the driver makes of wrk's words, and that it refuses to measure a target that answers wrongly.
Run by pytest; needs no wrk.
"""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.bench import load
from tests.bench.load import BenchError, Case, Target, parse_outcome
from tests.bench.mock_provider import MODEL
from tests.bench.servers import STREAM_CHUNKS, MockProvider

_PRINTED = """Running 2s test @ http://127.0.0.1:9901/v1/chat/completions
  1 threads and 16 connections

RESULT {"requests":1000,"seconds":2.0,"p50_ms":1.5,"p99_ms":4.25,"bad_status":100,"socket_errors":3}
"""


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockProvider]:
    with MockProvider(tmp_path_factory.mktemp("mock")) as server:
        yield server


def _target(mock: MockProvider) -> Target:
    return Target("mock", mock.base_url, MODEL, ["none"], {"mock": [mock.pid]})


def test_the_result_line_is_found_among_wrks_own_words() -> None:
    outcome = parse_outcome(_PRINTED)

    assert (outcome.requests, outcome.p50_ms, outcome.p99_ms) == (1000, 1.5, 4.25)


def test_refused_requests_do_not_count_as_speed_and_broken_connections_count_as_failed() -> None:
    outcome = parse_outcome(_PRINTED)

    assert outcome.per_second == 450
    assert outcome.failed == 103


def test_without_a_result_wrks_last_word_is_shown() -> None:
    with pytest.raises(BenchError, match="unable to connect to 127"):
        parse_outcome("", "unable to connect to 127.0.0.1:1 Connection refused\n")


def test_a_missing_wrk_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(BenchError, match="apt-get install wrk"):
        load.require_tools()


def test_the_probe_accepts_the_mock_itself(mock: MockProvider) -> None:
    load.probe(_target(mock), STREAM_CHUNKS)


def test_the_probe_refuses_a_stream_that_ends_early(mock: MockProvider) -> None:
    with pytest.raises(BenchError, match="streamed without"):
        load.probe(_target(mock), STREAM_CHUNKS + 1)


def test_the_probe_refuses_an_error_status(mock: MockProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "CHAT", "/v1/nothing")

    with pytest.raises(BenchError, match="answered 404"):
        load.probe(_target(mock), STREAM_CHUNKS)


def test_a_target_that_dies_under_load_is_no_result(mock: MockProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    # given a process of the target that has ended by the time wrk is done
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    target = Target("gateway", mock.base_url, MODEL, ["none"], {"edge": [mock.pid], "ledger": [ended.pid]})
    monkeypatch.setattr(load, "_run_wrk", lambda *_: parse_outcome(_PRINTED))

    with pytest.raises(BenchError, match="gateway: ledger ended under load"):
        load.run_load(target, Case("plain", 1), 1, {"mock": [mock.pid]})
