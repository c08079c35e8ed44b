"""One request is one trace: from HTTP over gRPC and Kafka to the ledger's row, each span under the one that called it.
The calls that each kind of request makes are the table below.
"""

import pytest

from libs.core.settings import KafkaSettings
from libs.events import topics
from libs.kafka.reading import read_to_end
from tests.observe.spans import CLIENT, edges, read_spans
from tests.observe.traffic import Traffic
from tests.support.system import System, eventually

pytestmark = pytest.mark.timeout(300)

CHAT = "edge server: POST /v1/chat/completions"
BALANCE = "edge server: GET /v1/account/balance"
COMPLETE = "edge internal: provider.complete"
SETTLE = "ledger server: ledger.settle"

ADMITTED = {
    (CLIENT, CHAT),
    (CHAT, "limiter server: limiter.admit"),
    (CHAT, "router server: router.route"),
    (CHAT, "ledger server: ledger.reserve"),
    (CHAT, COMPLETE),
    (COMPLETE, "edge client: provider.attempt"),
    (CHAT, "router consumer: edge.attempts.v1 process"),
}
CALLS: dict[str, set[tuple[str, str]]] = {
    "paid": {
        *ADMITTED,
        (CHAT, SETTLE),
        (SETTLE, "ledger producer: ledger.entries.v1 publish"),
        (CHAT, "ledger consumer: edge.usage.v1 process"),
    },
    "failing": {*ADMITTED, (CHAT, "ledger server: ledger.release")},
    "unknown key": {
        (CLIENT, CHAT),
        (CHAT, "edge client: accounts.ResolveKey"),
        ("edge client: accounts.ResolveKey", "accounts server: kenari.accounts.v1.Accounts/ResolveKey"),
    },
    "read": {
        (CLIENT, BALANCE),
        (BALANCE, "edge client: ledger.GetBalance"),
        ("edge client: ledger.GetBalance", "ledger server: kenari.ledger.v1.Ledger/GetBalance"),
    },
}
# The event can be there before the call: then it settles, and the call finds it done.
EITHER_WAY = {("ledger consumer: edge.usage.v1 process", SETTLE)}


@pytest.mark.parametrize("kind", CALLS)
def test_a_trace_shows_every_call_under_its_caller(system: System, traffic: Traffic, kind: str) -> None:
    sent = traffic.sent[kind]

    def found() -> set[tuple[str, str]]:
        return edges(read_spans(system.traces()), sent.trace_id, sent.parent_id) - EITHER_WAY

    try:
        eventually(lambda: found() >= CALLS[kind])
    finally:
        assert found() == CALLS[kind]


def test_the_spans_name_the_request_that_the_ledger_has_a_row_of(system: System, traffic: Traffic) -> None:
    paid = traffic.sent["paid"]
    spans = [span for span in read_spans(system.traces()) if span.trace_id == paid.trace_id]
    named = {span.label for span in spans if span.attributes.get("kenari.request_id") == paid.request_id}
    assert named == {CHAT, "ledger server: ledger.reserve", SETTLE}
    (row,) = system.request(paid.request_id).usage
    assert row.cost_micro_idr > 0


async def test_events_carry_the_trace_of_the_span_that_made_them(system: System, traffic: Traffic) -> None:
    paid = traffic.sent["paid"]
    labels = {span.span_id: span.label for span in read_spans(system.traces()) if span.trace_id == paid.trace_id}
    makers = {
        topics.EDGE_REQUESTS: CHAT,
        topics.EDGE_ATTEMPTS: CHAT,
        topics.EDGE_USAGE: CHAT,
        topics.LEDGER_ENTRIES: SETTLE,
    }
    carried = {
        received.topic: received.traceparent
        async for received in read_to_end(KafkaSettings(bootstrap=system.kafka.address), list(makers), 0)
        if received.envelope.data.get("request_id") == paid.request_id
    }
    assert {context.split("-")[1] for context in carried.values()} == {paid.trace_id}
    made_by = {topic: labels[context.split("-")[2]] for topic, context in carried.items()}
    assert made_by == {topic.name: maker for topic, maker in makers.items()}


def test_a_request_that_is_not_sampled_leaves_no_span(system: System, traffic: Traffic) -> None:
    silent = traffic.sent["not sampled"]
    assert silent.answer.is_success
    spans = read_spans(system.traces())
    assert [span for span in spans if span.trace_id == silent.trace_id] == []
    assert [span for span in spans if span.attributes.get("kenari.request_id") == silent.request_id] == []


def test_a_request_without_a_trace_starts_one(system: System, traffic: Traffic) -> None:
    request_id = traffic.others["free"].headers["x-request-id"]
    spans = read_spans(system.traces())
    (root,) = [s for s in spans if s.label == CHAT and s.attributes["kenari.request_id"] == request_id]
    assert root.parent_id is None
    below = {span.label for span in spans if span.trace_id == root.trace_id}
    assert {"limiter server: limiter.admit", "limiter server: limiter.done", SETTLE} <= below
    assert "ledger server: ledger.reserve" not in below
