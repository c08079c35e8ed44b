"""The balance when the books do not answer: a clear 500, and never an account without money."""

import json
from typing import Any

import pytest
from fastapi import FastAPI
from kenari.ledger.v1 import ledger_pb2

from libs.core.errors import Transient
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.edge.endpoints import account, reading
from services.edge.exchange import Exchange
from services.edge.http import PublicApp
from services.edge.keys import Caller


class Keys:
    """Every caller is a key without restrictions."""

    async def caller(self, _: Exchange) -> Caller:
        return Caller("key_a", "acct_a")


class Books:
    """Answers with that balance, or with nothing."""

    def __init__(self, answer: ledger_pb2.GetBalanceResponse | None) -> None:
        self._answer = answer

    async def balance(self, account_id: str) -> ledger_pb2.GetBalanceResponse:
        if self._answer is None:
            raise Transient("away")
        return self._answer


async def ask(books: Books) -> tuple[int, dict[str, Any]]:
    app = FastAPI()
    app.include_router(account.router)
    reading.install_handlers(app)
    app.state.callers, app.state.ledger = Keys(), books
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/v1/account/balance", "headers": [], "query_string": b"",
             "raw_path": b""}  # fmt: skip
    await PublicApp({}, app, frozenset(), Telemetry("edge", TelemetrySettings()).tracing)(scope, receive, send)
    return sent[0]["status"], json.loads(b"".join(message.get("body", b"") for message in sent))


@pytest.mark.rule("ACC-024")
async def test_books_that_do_not_answer_are_a_500_and_never_a_balance_of_nothing() -> None:
    status, body = await ask(Books(None))
    error = body["error"]
    assert (status, error["code"], error["type"]) == (500, "internal_error", "api_error")


@pytest.mark.rule("ACC-017")
async def test_the_amounts_are_those_of_the_books() -> None:
    answer = ledger_pb2.GetBalanceResponse(
        balance_micro_idr=25_000_000_000, reserved_micro_idr=1_500_000, available_micro_idr=24_998_500_000
    )
    assert await ask(Books(answer)) == (
        200,
        {
            "object": "account.balance",
            "balance_micro_idr": 25_000_000_000,
            "reserved_micro_idr": 1_500_000,
            "available_micro_idr": 24_998_500_000,
            "currency": "IDR",
        },
    )
