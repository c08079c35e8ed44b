"""Usage rows of any kind and number, written as settlements write them but without their money.

Used by the tests of usage reads: settlements know two of the six billing kinds so far, and one at a time is slow.
"""

import json
from collections.abc import Sequence
from typing import Any

from libs.core.ids import uuid7_hex

COUNTERS = ("requests", "prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "cost", "catalog")

_WRITE = """
with written as (
insert into usage_row
select (to_timestamp(r.ms / 1000.0) at time zone 'UTC')::date, r.request_id, 0, r.account, r.key, r.model, 'Maker',
       'chat', r.kind, 'completed', false, r.prompt, r.completion, r.cached, r.written, r.cost, r.catalog,
       gen_random_uuid(), to_timestamp(r.ms / 1000.0)
from json_to_recordset($1) as r(ms bigint, request_id uuid, account text, key text, model text, kind text,
    prompt integer, completion integer, cached integer, written integer, cost bigint, catalog bigint)
)
insert into outbox (topic, key, body)
select 'ledger.entries.v1', e.account, convert_to(e.body::text, 'UTF8')
from json_to_recordset($2) as e(account text, body json)
"""
_MANY = """
insert into usage_row
select (to_timestamp(m.ms / 1000.0) at time zone 'UTC')::date,
       (lpad(to_hex(m.ms), 12, '0') || '7' || left(md5($1 || m.n), 19))::uuid, 0, $1, 'key_' || m.n % 10,
       'maker-' || m.n % 4 || '/model-' || m.n % 12, 'Maker', 'chat', case m.n % 5 when 0 then 'free' else 'payg' end,
       'completed', false, 1000, 200, 400, 0, case m.n % 5 when 0 then 0 else 5000000 end, 5000000, gen_random_uuid(),
       to_timestamp(m.ms / 1000.0)
from (select n, $3::bigint + ($4::bigint - $3::bigint) * n / $2 as ms from generate_series(0, $2 - 1) n) m
"""


def row(account: str, at_s: float, **more: Any) -> dict[str, Any]:
    """One row's content; ``at_s`` in Unix seconds."""
    ms = round(at_s * 1000)
    values = {
        "ms": ms,
        "request_id": f"{ms:012x}{uuid7_hex()[12:]}",
        "account": account,
        "key": "key_1",
        "model": "sim-1",
        "kind": "payg",
        "prompt": 100,
        "completion": 50,
        "cached": 10,
        "written": 5,
        "cost": 600_000,
        "catalog": 600_000,
    }
    assert more.keys() <= values.keys()
    return values | more


async def write(admin: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows with their events in one statement; the days' partitions must be there."""
    events = [
        {
            "account": one["account"],
            "body": {
                "type": "ledger.usage_settled.v1",
                "data": {"request_id": one["request_id"], "line": 0, "account_id": one["account"]},
            },
        }
        for one in rows
    ]
    await admin.execute(_WRITE, json.dumps(list(rows)), json.dumps(events))


async def write_many(admin: Any, account: str, rows: int, start_s: int, end_s: int) -> None:
    """That many rows evenly over a time, of 12 models and 10 keys, without events: sums have to be rebuilt."""
    await admin.execute(_MANY, account, rows, start_s * 1000, end_s * 1000, timeout=600)
