"""The ledger on the wire, in this process: check stream and unary calls answer alike; events settle what calls left."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from libs.core.errors import Permanent
from libs.core.settings import RpcSettings, TelemetrySettings
from libs.events.base import envelope
from libs.events.edge import UsageRecorded
from libs.kafka.records import Received
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from libs.rpc.client import RpcClient
from libs.rpc.server import RpcServer
from services.ledger.consumers import UsageReader
from services.ledger.domain.calls import RefusedError, Reserve, Settle
from services.ledger.rpc import NAME, LedgerRpc
from tests.service.ledger.conftest import Books, reserve, settle
from tests.service.ledger.processes import connected

OUTCOMES = {
    "completed": ledger_pb2.OUTCOME_COMPLETED,
    "client_closed": ledger_pb2.OUTCOME_CLIENT_CLOSED,
    "interrupted": ledger_pb2.OUTCOME_INTERRUPTED,
}


class Wire:
    """A client of the served ledger."""

    def __init__(self, rpc: RpcClient, checks: CheckClient) -> None:
        self.rpc = rpc
        self.checks = checks
        self.stub = ledger_pb2_grpc.LedgerStub(rpc.channel)

    async def call(self, method: str, request: Any) -> Any:
        return await self.rpc.call(f"ledger.{method}", getattr(self.stub, method), request)

    async def ask(self, kind: str, request: Any) -> Any:
        return await self.checks.ask(kind, request, 5.0)


@pytest.fixture
async def wire(books: Books) -> AsyncIterator[Wire]:
    server = RpcServer(RpcSettings(port=0), books.telemetry)
    servicer = LedgerRpc(books.ledger, books.reads, books.telemetry)
    server.register(ledger_pb2_grpc.add_LedgerServicer_to_server, servicer, NAME)
    await server.start()
    telemetry = Telemetry("test", TelemetrySettings())
    rpc = RpcClient(f"127.0.0.1:{server.port}", telemetry, deadline_s=5.0)
    stub = ledger_pb2_grpc.LedgerStub(rpc.channel)
    checks = CheckClient("ledger", stub.CheckStream, ledger_pb2.CheckBatch, ledger_pb2.CheckItem, telemetry)
    await checks.start()
    await connected(checks)
    yield Wire(rpc, checks)
    await checks.stop()
    await rpc.stop()
    server.grace_s = 0
    await server.stop()


def reserve_message(call: Reserve) -> Any:
    return ledger_pb2.ReserveRequest(
        request_id=call.request_id,
        line=call.line,
        account_id=call.account_id,
        key_id=call.key_id,
        endpoint=call.endpoint,
        model=call.model,
        price_version=call.price_version,
        estimated_input_tokens=call.input_tokens,
        max_tokens=call.max_tokens,
        request_hash=call.asked_hash,
    )


def settle_message(call: Settle) -> Any:
    return ledger_pb2.SettleRequest(
        request_id=call.request_id,
        line=call.line,
        account_id=call.account_id,
        key_id=call.key_id,
        endpoint=call.endpoint,
        model=call.model,
        vendor=call.vendor,
        price_version=call.price_version,
        billing_kind=call.billing_kind,
        outcome=OUTCOMES[call.outcome],
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        cached_tokens=call.cached_tokens,
        cache_write_tokens=call.cache_write_tokens,
        estimated=call.estimated,
        descriptor=call.descriptor,
        started_at_ms=call.started_at_ms,
    )


def event(call: Settle) -> Received:
    """The same settlement as the edge's event, as a consumer receives it."""
    data = UsageRecorded(
        request_id=call.request_id,
        line=call.line,
        account_id=call.account_id,
        key_id=call.key_id,
        endpoint=call.endpoint,
        model=call.model,
        vendor=call.vendor,
        price_version=call.price_version,
        billing_kind=call.billing_kind,
        outcome=call.outcome,
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        cached_tokens=call.cached_tokens,
        cache_write_tokens=call.cache_write_tokens,
        estimated=call.estimated,
        descriptor=call.descriptor,
        started_at_ms=call.started_at_ms,
    )
    made = envelope(data, source="edge", subject=call.account_id, now_ms=0)
    return Received(SimpleNamespace(headers=(), key=b"", topic="edge.usage.v1"), made)


@pytest.mark.parametrize("way", ["stream", "unary"])
async def test_a_request_from_hold_to_log_over_the_wire(books: Books, wire: Wire, account: str, way: str) -> None:
    async def go(name: str, message: Any) -> Any:
        return await (wire.ask(name.lower(), message) if way == "stream" else wire.call(name, message))

    await wire.call(
        "Credit",
        ledger_pb2.CreditRequest(account_id=account, amount_micro_idr=10_000_000, idempotency_key="k", kind="top_up"),
    )
    call = reserve(account)
    granted = (await go("Reserve", reserve_message(call))).granted
    assert (granted.billing_kind, granted.max_tokens, granted.hold_micro_idr) == ("payg", 500, 4_200_000)
    assert granted.ttl_ms == 120_000

    settled = await go("Settle", settle_message(settle(call, granted.descriptor, cached_tokens=30)))
    assert (settled.cost_micro_idr, settled.available_micro_idr) == (600_000, 9_400_000)
    other = reserve(account)
    await go("Reserve", reserve_message(other))
    released = await go("Release", ledger_pb2.ReleaseRequest(request_id=other.request_id, account_id=account))
    assert released.released

    balance = await wire.call("GetBalance", ledger_pb2.GetBalanceRequest(account_id=account))
    assert (balance.balance_micro_idr, balance.reserved_micro_idr) == (9_400_000, 0)
    start = int(call.request_id[:12], 16) // 1000
    log = await wire.call(
        "UsageLog", ledger_pb2.UsageLogRequest(account_id=account, start=start - 1, end=start + 5, limit=50)
    )
    assert log.total == 1
    (row,) = log.rows
    assert (row.request_id, row.created_at, row.vendor, row.billing_kind) == (
        call.request_id,
        start,
        "Simulated",
        "payg",
    )
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.cost_micro_idr) == (100, 50, 30, 600_000)

    everything = await wire.call("GetRequest", ledger_pb2.GetRequestRequest(request_id=call.request_id))
    assert [(hold.state, hold.cost_micro_idr) for hold in everything.holds] == [("settled", 600_000)]
    assert [(leg.debit, leg.credit, leg.amount_micro_idr) for leg in everything.transfers] == [
        (f"{account}:paid", "usage_revenue", 600_000)
    ]


async def test_a_refusal_for_want_of_money_is_an_answer(wire: Wire, account: str) -> None:
    denied = (await wire.ask("reserve", reserve_message(reserve(account)))).denied

    assert (denied.status, denied.code) == (402, "insufficient_balance")
    assert denied.worst_case_micro_idr == 4_200_000


async def test_a_call_that_contradicts_the_books_is_an_error(books: Books, wire: Wire, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    await books.granted(call)
    await books.release(call)

    with pytest.raises(CheckFailedError) as streamed:
        await wire.ask("reserve", reserve_message(call))
    with pytest.raises(Permanent) as unary:
        await wire.call("Reserve", reserve_message(call))

    assert streamed.value.reason == unary.value.reason == "already_finished"


async def test_malformed_calls_are_refused_on_both_ways(wire: Wire, account: str) -> None:
    with pytest.raises(CheckFailedError):
        await wire.ask("settle", ledger_pb2.SettleRequest(request_id="x", account_id=account))
    with pytest.raises(Permanent):
        await wire.call("Touch", ledger_pb2.TouchRequest(holds=[ledger_pb2.HoldRef(request_id="x")]))
    with pytest.raises(Permanent):
        await wire.call("GetRequest", ledger_pb2.GetRequestRequest(request_id="x"))


async def test_touch_names_holds_that_are_gone(books: Books, wire: Wire, account: str) -> None:
    await books.credit(account, 10_000_000)
    alive, gone = reserve(account), reserve(account)
    await books.granted(alive)

    refs = [ledger_pb2.HoldRef(request_id=call.request_id) for call in (alive, gone)]
    answer = await wire.call("Touch", ledger_pb2.TouchRequest(holds=refs))

    assert [hold.request_id for hold in answer.gone] == [gone.request_id]


async def test_the_event_after_the_call_changes_nothing(books: Books, account: str) -> None:
    await books.credit(account, 10_000_000)
    call = reserve(account)
    granted = await books.granted(call)
    said = settle(call, granted.descriptor)
    await books.settle(said)
    reader = UsageReader(books.ledger, books.telemetry)

    await reader.handle([event(said)])

    assert books.metric("kenari_ledger_usage_events_total", result="known") == 1
    assert books.metric("kenari_ledger_conflicts_total") == 0
    assert (await books.balance(account)).balance == 9_400_000


async def test_the_event_alone_settles_whatever_its_order_and_number(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    said = []
    for _ in range(5):
        call = reserve(account)
        said.append(settle(call, (await books.granted(call)).descriptor))
    said.append(settle(reserve(account), billing_kind="free"))
    reader = UsageReader(books.ledger, books.telemetry)

    await reader.handle([event(one) for one in [*reversed(said), *said]])

    assert books.metric("kenari_ledger_usage_events_total", result="settled") == 6
    assert await books.count("usage_row") == 6
    assert (await books.balance(account)).balance == 100_000_000 - 5 * 600_000


async def test_an_event_that_cannot_be_true_is_refused_and_the_others_settle(books: Books, account: str) -> None:
    await books.credit(account, 100_000_000)
    call = reserve(account)
    good = settle(call, (await books.granted(call)).descriptor)
    forged = settle(reserve(account), "forged")
    reader = UsageReader(books.ledger, books.telemetry)

    with pytest.raises(RefusedError) as refused:
        await reader.handle([event(forged), event(good)])

    assert refused.value.reason == "unknown_hold"
    assert await books.count("usage_row") == 1


async def test_sums_and_single_rows_over_the_wire(books: Books, wire: Wire, account: str) -> None:
    call = reserve(account)
    await books.settle(settle(call, billing_kind="free", cached_tokens=40))
    at = int(call.request_id[:12], 16) // 1000
    window: dict[str, Any] = {"account_id": account, "start": at, "end": at}

    summary = await wire.call("UsageSummary", ledger_pb2.UsageSummaryRequest(**window))
    daily = await wire.call("UsageDaily", ledger_pb2.UsageDailyRequest(**window, key_id="key_2"))
    row = await wire.call("UsageRow", ledger_pb2.UsageRowRequest(account_id=account, request_id=call.request_id))
    none = await wire.call("UsageRow", ledger_pb2.UsageRowRequest(account_id="acct_x", request_id=call.request_id))

    assert list(summary.rows) == [
        ledger_pb2.ModelUsage(
            model="sim-1",
            billing_kind="free",
            requests=1,
            prompt_tokens=100,
            completion_tokens=50,
            cached_tokens=40,
            catalog_micro_idr=600_000,
        )
    ]
    assert [(day.requests, day.cost_micro_idr) for day in daily.days] == [(0, 0)]
    assert (row.row.request_id, row.row.created_at, row.row.catalog_micro_idr) == (call.request_id, at, 600_000)
    assert not none.HasField("row")
    for wrong in ("nonsense", call.request_id[:-1]):
        with pytest.raises(Permanent):
            await wire.call("UsageRow", ledger_pb2.UsageRowRequest(account_id=account, request_id=wrong))
