"""Reads of usage at the edge: windows by a fixed clock, what the ledger is asked, and what its failure becomes."""

import asyncio
import json
from typing import Any, cast

import pytest
from fastapi import FastAPI
from kenari.ledger.v1 import ledger_pb2
from pydantic import SecretStr

from libs.core.errors import Transient
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient, CheckFailedError
from services.edge.body import BodyReader
from services.edge.endpoints import reading, usage
from services.edge.endpoints.usage_parameters import resolve_days, resolve_window
from services.edge.errors import RefusedError
from services.edge.exchange import Exchange
from services.edge.http import PublicApp
from services.edge.keys import Caller
from services.edge.limiter import Limiter
from services.edge.live import LiveRequests
from services.edge.settings import BodyLimits, EdgeSettings, Waits

NOW = 1_790_413_200  # 2026-09-26 09:00 UTC
MIDNIGHT = 1_790_380_800
ID = "01a22f30788f70959495366cb961b48a"
ROW = ledger_pb2.UsageRow(request_id=ID, created_at=NOW, model="m", vendor="Maker", billing_kind="payg")


class Keys:
    """Every caller is a key with a spend cap."""

    async def caller(self, _: Exchange) -> Caller:
        return Caller("key_capped", "acct_a", caps=ledger_pb2.KeyCaps(tokens=1))


class NoLimiter:
    def begin(self, *_: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(CheckFailedError("limiter: unavailable", reason="unavailable"))
        return future


class Books:
    """A ledger that notes what it is asked and says little, or fails."""

    def __init__(self, *, away: bool = False) -> None:
        self._away = away
        self.asked: list[Any] = []

    def _answer(self, request: Any, answer: Any) -> Any:
        self.asked.append(request)
        if self._away:
            raise Transient("ledger: unavailable")
        return answer

    async def usage_summary(self, request: Any) -> Any:
        return self._answer(request, ledger_pb2.UsageSummaryResponse())

    async def usage_daily(self, request: Any) -> Any:
        return self._answer(request, ledger_pb2.UsageDailyResponse())

    async def usage_log(self, request: Any) -> Any:
        return self._answer(request, ledger_pb2.UsageLogResponse(rows=[ROW], total=1))

    async def usage_row(self, request: Any) -> Any:
        return self._answer(request, ROW)


class Connection:
    """A client that takes the answer, as the server's connection object."""

    disconnected = False

    def __init__(self) -> None:
        self.status = 0
        self.body = b""

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.body += message.get("body", b"")


async def ask(books: Books, path: str) -> tuple[int, dict[str, Any]]:
    telemetry = Telemetry("edge", TelemetrySettings())
    app = FastAPI()
    app.include_router(usage.router)
    reading.install_handlers(app)
    app.state.callers, app.state.ledger = Keys(), books
    settings = EdgeSettings(key_hash_secret=SecretStr("s" * 32))
    telemetry = Telemetry("edge", TelemetrySettings())
    app.state.limiter = Limiter(cast("CheckClient", NoLimiter()), settings, telemetry)
    app.state.live, app.state.bodies = LiveRequests(Waits(), telemetry), BodyReader(BodyLimits())
    public = PublicApp({}, app, frozenset(), telemetry.tracing)
    client = Connection()
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b"", "raw_path": b""}
    await public(scope, client.receive, client.send)
    return client.status, json.loads(client.body)


@pytest.mark.rule("USE-063")
@pytest.mark.parametrize("path", ["/v1/usage", "/v1/usage/daily", "/v1/usage/log", f"/v1/usage/log/{ID}"])
async def test_a_ledger_that_is_away_is_a_500_and_never_no_usage(path: str) -> None:
    status, body = await ask(Books(away=True), path)

    error = body["error"]
    assert (status, error["code"], error["type"]) == (500, "internal_error", "api_error")


@pytest.mark.rule("USE-055", "ACC-003")
@pytest.mark.parametrize("path", ["/v1/usage", "/v1/usage/daily", "/v1/usage/log", f"/v1/usage/log/{ID}"])
async def test_a_key_with_a_cap_asks_for_itself_only_with_and_without_a_limiter(path: str) -> None:
    books = Books()

    status, _ = await ask(books, path)

    assert status == 200
    assert [(one.account_id, one.key_id) for one in books.asked] == [("acct_a", "key_capped")]


@pytest.mark.rule("USE-048")
async def test_a_request_without_a_key_has_null_for_one() -> None:
    _, log = await ask(Books(), "/v1/usage/log")
    _, one = await ask(Books(), f"/v1/usage/log/{ID}")

    assert log["data"] == [one]
    assert (one["api_key_id"], one["id"]) == (None, ID)


@pytest.mark.rule("USE-035")
async def test_no_usage_is_a_total_of_zeros() -> None:
    _, body = await ask(Books(), "/v1/usage")

    assert (body["data"], set(body["total"].values()), len(body["total"])) == ([], {0}, 7)


@pytest.mark.rule("USE-008", "USE-014", "USE-015", "USE-016", "USE-017", "USE-018")
@pytest.mark.parametrize(
    ("given", "window"),
    [
        ({}, (NOW - 2_592_000, NOW)),
        ({"range": "today"}, (MIDNIGHT, NOW)),
        ({"range": "24h"}, (NOW - 86_400, NOW)),
        ({"range": "7d"}, (NOW - 604_800, NOW)),
        ({"start": "1790207999", "end": str(MIDNIGHT), "range": "?"}, (1_790_207_999, MIDNIGHT)),
        ({"start": str(MIDNIGHT)}, (MIDNIGHT, NOW)),
        ({"start": str(MIDNIGHT), "end": "1999999999"}, (MIDNIGHT, NOW)),
        ({"end": str(MIDNIGHT - 1)}, (MIDNIGHT - 1 - 2_592_000, MIDNIGHT - 1)),
        ({"end": "1999999999"}, (NOW - 2_592_000, NOW)),
        ({"end": "5"}, (0, 5)),
        ({"start": "1758844800", "end": str(MIDNIGHT)}, (1_758_844_800, MIDNIGHT)),
    ],
)
def test_windows_follow_the_clock(given: dict[str, str], window: tuple[int, int]) -> None:
    for resolve in (resolve_window, resolve_days):
        resolved = resolve(given, NOW)
        assert (resolved.start, resolved.end) == window


@pytest.mark.rule("USE-019", "USE-020")
@pytest.mark.parametrize(
    "given",
    [
        {"start": str(MIDNIGHT + 1), "end": str(MIDNIGHT)},
        {"start": str(NOW + 1), "end": "1999999999"},
        # 367 UTC days are touched.
        {"start": "1758844799", "end": str(MIDNIGHT)},
        {"start": "1758758400", "end": str(MIDNIGHT)},
    ],
)
def test_a_window_backwards_or_too_long_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(RefusedError) as refused:
        resolve_days(given, NOW)
    assert (refused.value.error.status, refused.value.error.param) == (400, "start")
