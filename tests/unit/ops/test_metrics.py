"""Metrics: declared once, without identities, one registry per service.
Run by pytest; no servers needed.
"""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from libs.core.settings import TelemetrySettings
from libs.ops.metrics import FORBIDDEN_LABELS, CounterSpec, GaugeSpec, HistogramSpec
from libs.ops.telemetry import Telemetry

REQUESTS = CounterSpec("kenari.test.requests", "Requests", labels=("status",))
WAITS = HistogramSpec("kenari.test.wait.seconds", "Waits", buckets=(0.1, 1))
LEVEL = GaugeSpec("kenari.test.level", "Level")


def telemetry(service: str = "test") -> Telemetry:
    return Telemetry(service, TelemetrySettings())


def samples(reported: Telemetry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(reported.scrape().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


@pytest.mark.parametrize("label", sorted(FORBIDDEN_LABELS))
@pytest.mark.parametrize("kind", [CounterSpec, GaugeSpec, HistogramSpec])
def test_no_metric_may_carry_an_identity(kind: type[CounterSpec], label: str) -> None:
    with pytest.raises(ValueError, match=label):
        kind("kenari.test.things", "Things", labels=("status", label))


def test_a_metric_is_named_after_the_project() -> None:
    with pytest.raises(ValueError, match="must start with kenari"):
        CounterSpec("edge.requests", "Requests")


def test_a_scrape_holds_what_was_recorded() -> None:
    reported = telemetry()
    reported.metrics.counter(REQUESTS).labels("200").inc(3)
    reported.metrics.histogram(WAITS).observe(0.5)
    reported.metrics.gauge(LEVEL, lambda: 7.0)
    found = samples(reported)
    assert found[("kenari_test_requests_total", (("status", "200"),))] == 3
    assert found[("kenari_test_wait_seconds_bucket", (("le", "0.1"),))] == 0
    assert found[("kenari_test_wait_seconds_bucket", (("le", "1.0"),))] == 1
    assert found[("kenari_test_level", ())] == 7


def test_two_services_of_one_process_count_apart() -> None:
    first, second = telemetry("first"), telemetry("second")
    first.metrics.counter(REQUESTS).labels("200").inc()
    second.metrics.counter(REQUESTS).labels("200").inc(5)
    assert samples(first)[("kenari_test_requests_total", (("status", "200"),))] == 1
    assert samples(second)[("kenari_test_requests_total", (("status", "200"),))] == 5
    assert any(name == "kenari_service_build" and ("service", "first") in labels for name, labels in samples(first))


def test_asking_twice_for_a_metric_gives_the_same_one() -> None:
    reported = telemetry()
    assert reported.metrics.counter(REQUESTS) is reported.metrics.counter(REQUESTS)


def test_one_name_cannot_mean_two_things() -> None:
    reported = telemetry()
    reported.metrics.counter(REQUESTS)
    with pytest.raises(ValueError, match="declared twice"):
        reported.metrics.counter(CounterSpec("kenari.test.requests", "Requests", labels=("code",)))
    with pytest.raises(ValueError, match="declared twice"):
        reported.metrics.gauge(GaugeSpec("kenari.test.requests", "Requests", labels=("status",)))


def test_known_label_values_are_there_from_the_start() -> None:
    reported = telemetry()
    spec = CounterSpec("kenari.test.ends", "Ends", labels=("kind", "result"), values=(("a", "b"), ("done",)))
    reported.metrics.counter(spec)
    found = samples(reported)
    assert found[("kenari_test_ends_total", (("kind", "a"), ("result", "done")))] == 0
    assert found[("kenari_test_ends_total", (("kind", "b"), ("result", "done")))] == 0


def test_values_are_given_for_every_label_or_none() -> None:
    with pytest.raises(ValueError, match="2 labels and values for 1"):
        CounterSpec("kenari.test.ends", "Ends", labels=("kind", "result"), values=(("a", "b"),))
