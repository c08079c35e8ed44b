"""Days and pages of the usage log that must neither repeat nor lack anything: cases C089 and C091."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from libs.core.ids import uuid7_hex
from tests.cases.caller import Caller
from tests.support.background import BackgroundProvider
from tests.support.purse import Purse

COST = 90_000
DAY_S, MONTH_S = 86_400, 30 * 86_400
# 26 September 2026, 00:00 UTC.
MIDNIGHT = 1_790_380_800

_WRITE = """
with written as (
    insert into usage_row (day, request_id, line, account_id, key_id, model, vendor, endpoint, billing_kind, outcome,
                           estimated, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cost,
                           catalog, settle_hash, created_at)
    select (to_timestamp(r.at) at time zone 'UTC')::date, r.id, 0, $1, 'key_1', 'fx-oai', 'fixtures', 'chat', 'payg',
           'completed', false, 10, 2, 0, 0, 90000, 90000, gen_random_uuid(), to_timestamp(r.at)
    from json_to_recordset($2) as r(id uuid, at bigint)
    returning request_id
)
insert into outbox (topic, key, body)
select 'ledger.entries.v1', $1,
       convert_to(json_build_object('type', 'ledger.usage_settled.v1', 'data', json_build_object(
           'request_id', replace(w.request_id::text, '-', ''), 'line', 0, 'account_id', $1))::text, 'UTF8')
from written w
"""


def given_log(caller: Caller, *seconds: int) -> None:
    """Rows of the log at these Unix seconds, written with their events as settlements write them."""
    rows = [{"id": f"{at * 1000:012x}{uuid7_hex()[12:]}", "at": at} for at in seconds]
    Purse(caller.system, caller.person).sql(_WRITE, caller.person.account_id, json.dumps(rows))


def read(caller: Caller, path: str, **query: Any) -> httpx.Response:
    with caller.system.http(caller.person) as client:
        return client.get(path, params=query)


@pytest.mark.rule(
    "USE-007", "USE-017", "USE-018", "USE-020", "USE-029", "USE-039", "USE-040", "USE-041",
    "USE-042",
)  # fmt: skip
def test_c089_every_day_of_a_range_is_there_and_the_last_second_counts(payer: Caller) -> None:
    given_log(payer, MIDNIGHT - DAY_S - 1, MIDNIGHT)

    def daily(**query: Any) -> httpx.Response:
        return read(payer, "/v1/usage/daily", **query)

    first = daily(start=MIDNIGHT - 2 * DAY_S - 1, end=MIDNIGHT).json()["data"]
    assert [day["date"] for day in first] == ["2026-09-23", "2026-09-24", "2026-09-25", "2026-09-26"]
    assert [day["requests"] for day in first] == [0, 1, 0, 1]
    assert daily(start=MIDNIGHT, end=MIDNIGHT).json()["data"] == [
        {"date": "2026-09-26", "requests": 1, "cost_micro_idr": COST}
    ]
    assert [day["requests"] for day in daily(start=MIDNIGHT - DAY_S, end=MIDNIGHT - 1).json()["data"]] == [0]
    today = daily(range="today").json()
    assert today["start"] == int(time.time()) // DAY_S * DAY_S
    assert [day["date"] for day in today["data"]] == [datetime.now(UTC).date().isoformat()]
    future = daily(start=MIDNIGHT, end=1_999_999_999).json()
    assert abs(future["end"] - time.time()) < 10
    assert daily(end=MIDNIGHT - 1).json()["start"] == MIDNIGHT - 1 - MONTH_S
    reversed_window = daily(start=MIDNIGHT + 1, end=MIDNIGHT)
    wide = daily(start=MIDNIGHT - 366 * DAY_S, end=MIDNIGHT)
    for refused in (reversed_window, wide):
        told = refused.json()["error"]
        assert (refused.status_code, told["type"]) == (400, "invalid_request_error")
        assert told["param"] in ("start", "end")
    year = daily(start=MIDNIGHT - 365 * DAY_S, end=MIDNIGHT)
    assert (year.status_code, len(year.json()["data"])) == (200, 366)
    assert all(type(day["cost_micro_idr"]) is int for day in year.json()["data"])
    assert sum(day["cost_micro_idr"] for day in year.json()["data"]) == 2 * COST


@pytest.mark.rule("USE-046", "USE-049", "USE-050")
def test_c091_pages_of_a_fixed_window_hold_each_row_once(payer: Caller, p1: BackgroundProvider) -> None:
    start, end = MIDNIGHT, MIDNIGHT + DAY_S
    at = MIDNIGHT + 3_600
    given_log(payer, at - 1, at, at, at, at, at, at + 1)

    def page(number: int) -> dict[str, Any]:
        answer = read(payer, "/v1/usage/log", start=start, end=end, limit=3, page=number)
        assert answer.status_code == 200
        body: dict[str, Any] = answer.json()
        return body

    pages = [page(0)]
    for _ in range(2):
        assert payer.chat().status_code == 200
    pages += [page(number) for number in (1, 2, 3)]
    rows = [row for one in pages for row in one["data"]]
    assert [len(one["data"]) for one in pages] == [3, 3, 1, 0]
    assert len({row["id"] for row in rows}) == 7
    times = [row["created_at"] for row in rows]
    assert times == sorted(times, reverse=True)
    assert [one["has_more"] for one in pages] == [True, True, False, False]
    assert {one["total"] for one in pages} == {7}
    assert page(0)["data"] == pages[0]["data"]
