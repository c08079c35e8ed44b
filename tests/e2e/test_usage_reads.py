"""Usage as its readers see it: sums per model, sums per day, one request by its id, and who may read them."""

import time
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2

from tests.support.background import BackgroundProvider
from tests.support.provider import completion
from tests.support.system import Person, System, eventually

CHAT = "/v1/chat/completions"
SUMS = ("/v1/usage", "/v1/usage/daily")
ALL = (*SUMS, "/v1/usage/log")
DAY_S = 86_400
COUNTERS = {
    "requests", "prompt_tokens", "completion_tokens", "cached_prompt_tokens", "cache_write_prompt_tokens",
    "cost_micro_idr", "catalog_micro_idr",
}  # fmt: skip
COST = 1000 * 4_200 + 100 * 24_000


@pytest.fixture(scope="module")
def reader(system: System) -> Person:
    """A person who only reads, with requests nobody counts."""
    return system.person()


def ask(system: System, person: Person, model: str = "fx-oai") -> httpx.Response:
    with system.http(person) as client:
        return client.post(CHAT, json={"model": model, "messages": [{"role": "user", "content": "Hello!"}]})


def read(system: System, person: Person, path: str, **query: Any) -> dict[str, Any]:
    with system.http(person) as client:
        answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


@pytest.mark.rule(
    "USE-022", "USE-023", "USE-029", "USE-030", "USE-031", "USE-032", "USE-033", "USE-035", "USE-036", "USE-037",
    "USE-038", "USE-039", "USE-043", "USE-044", "USE-053", "USE-054",
)  # fmt: skip
def test_sums_and_log_tell_the_same_of_the_same_requests(system: System, first: BackgroundProvider) -> None:
    person = system.person()
    first.answers(completion("hi", usage=(1000, 100)))
    ask(system, person)
    ask(system, person)
    free = ask(system, person, model="fx-free:free")
    ask(system, person, model="no-such-model")
    eventually(lambda: len(system.usage(person)) == 3)
    start = int(time.time()) - DAY_S

    summary = read(system, person, "/v1/usage", start=start)
    daily = read(system, person, "/v1/usage/daily", start=start)
    log = read(system, person, "/v1/usage/log", start=start)

    assert free.status_code == 200
    assert (set(summary), summary["object"], summary["start"]) == (
        {"object", "start", "end", "data", "total"}, "usage.summary", start,
    )  # fmt: skip
    paid, unpaid = summary["data"]
    assert set(paid) == COUNTERS | {"model", "billing_kind"}
    assert (paid["model"], paid["billing_kind"], paid["requests"]) == ("fx-oai", "payg", 2)
    assert (paid["prompt_tokens"], paid["completion_tokens"]) == (2000, 200)
    assert paid["cost_micro_idr"] == paid["catalog_micro_idr"] == 2 * COST
    assert (unpaid["model"], unpaid["billing_kind"], unpaid["cost_micro_idr"]) == ("fx-free:free", "free", 0)
    assert set(summary["total"]) == COUNTERS
    assert (summary["total"]["requests"], summary["total"]["cost_micro_idr"]) == (3, 2 * COST)
    assert all(isinstance(summary["total"][name], int) for name in COUNTERS)
    for name in COUNTERS - {"requests"}:
        assert summary["total"][name] == sum(row[name] for row in log["data"])
    assert (set(daily), daily["object"]) == ({"object", "start", "end", "data"}, "usage.daily")
    assert [set(day) for day in daily["data"]] == [{"date", "requests", "cost_micro_idr"}] * 2
    dates = [datetime.fromtimestamp(second, UTC).date().isoformat() for second in (start, daily["end"])]
    assert [day["date"] for day in daily["data"]] == dates
    assert (sum(d["requests"] for d in daily["data"]), sum(d["cost_micro_idr"] for d in daily["data"])) == (3, 2 * COST)
    assert set(log) == {"object", "start", "end", "data", "page", "limit", "has_more", "total"}
    one = read(system, person, "/v1/usage", model="fx-oai")
    assert [row["model"] for row in one["data"]] == ["fx-oai"]
    none = read(system, person, "/v1/usage/daily", model="FX-OAI", start=start)
    assert [day["requests"] for day in none["data"]] == [0, 0]
    assert read(system, person, "/v1/usage", model="fx-free")["total"] == dict.fromkeys(COUNTERS, 0)


@pytest.mark.rule("USE-045")
def test_a_row_of_the_log_can_be_read_again_by_its_id(system: System, first: BackgroundProvider) -> None:
    person, other = system.person(), system.person()
    first.answers(completion("hi", usage=(1000, 100)))
    request_id = ask(system, person).headers["x-request-id"]
    (row,) = eventually(lambda: system.usage(person))

    assert row["id"] == request_id
    assert set(row) - {"id"} == (COUNTERS - {"requests"}) | {
        "created_at", "model", "vendor", "api_key_id", "billing_kind",
    }  # fmt: skip
    assert read(system, person, f"/v1/usage/log/{request_id}") == row
    with system.http(other) as client:
        for unknown in (request_id, "nonsense", request_id.upper(), "0" * 32):
            answer = client.get(f"/v1/usage/log/{unknown}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.rule("USE-004", "USE-006", "USE-008", "USE-014", "USE-015", "USE-016", "USE-017", "USE-018")
@pytest.mark.parametrize("path", ALL)
def test_windows_are_resolved_alike(system: System, path: str) -> None:
    person = system.person()
    now = int(time.time())
    lengths = {"range=24h": 1, "range=7d": 7, "range=30d": 30, "": 30, "colour=red": 30}
    with system.http(person) as client:

        def window(query: str) -> tuple[int, int]:
            answer = client.get(f"{path}?{query}")
            assert answer.status_code == 200, answer.text
            return answer.json()["start"], answer.json()["end"]

        for query, days in lengths.items():
            start, end = window(query)
            assert (end - start, end >= now) == (days * DAY_S, True)
        start, end = window("range=today")
        assert (start % DAY_S, end - start < DAY_S) == (0, True)
        assert window(f"start={now - 60}&range=nonsense")[0] == now - 60
        assert window("end=5000000") == (5_000_000 - 30 * DAY_S, 5_000_000)
        start, end = window("end=99999999999")
        assert (end - start, 0 <= end - now < 60) == (30 * DAY_S, True)
        if path in SUMS:
            window("billing_kind=gold&page=-1&limit=many")


@pytest.mark.rule("USE-005")
def test_the_first_of_a_repeated_parameter_counts(system: System, reader: Person) -> None:
    with system.http(reader) as client:
        log = client.get("/v1/usage/log?limit=2&limit=x&page=1&page=-1&start=100&start=x&end=200&end=1").json()
    assert (log["limit"], log["page"], log["start"], log["end"]) == (2, 1, 100, 200)


@pytest.mark.rule("USE-020", "USE-019", "USE-060", "USE-061", "USE-062")
@pytest.mark.parametrize("path", SUMS)
@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("start=x", "start"),
        ("end=", "end"),
        ("start=-1", "start"),
        ("end=-1", "end"),
        ("start=200&end=100", "start"),
        ("start=99999999999", "start"),
        ("range=1y", "range"),
        # 367 days touched, though the window is 366 days long.
        ("start=1758844799&end=1790380800", "start"),
        ("model=%00", "model"),
    ],
)
def test_a_wrong_parameter_of_a_sum_is_named(system: System, path: str, query: str, param: str) -> None:
    with system.http(system.person(rupiahs=0)) as client:
        answer = client.get(f"{path}?{query}")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"], error["param"]) == (
        400,
        "bad_request",
        "invalid_request_error",
        param,
    )


@pytest.mark.rule("USE-011", "USE-012", "USE-013", "USE-050", "USE-051")
def test_the_log_clamps_limits_and_bounds_depth(system: System, reader: Person) -> None:
    with system.http(reader) as client:

        def log(query: str) -> httpx.Response:
            return client.get(f"/v1/usage/log?{query}")

        shown = {"": 50, "limit=0": 1, "limit=-5": 1, "limit=1": 1, "limit=200": 200, "limit=201": 200}
        for query, limit in shown.items():
            body = log(query).json()
            assert (body["limit"], body["page"]) == (limit, 0)
        for served in ("page=200&limit=50", "page=50&limit=100000", "page=10000&limit=0"):
            body = log(served).json()
            assert (body["data"], body["has_more"]) == ([], False)
        wrong = {
            "page=201&limit=50": "page",
            "page=51&limit=100000": "page",
            "page=10001&limit=0": "page",
            "page=-1": "page",
            "billing_kind=": "billing_kind",
            "billing_kind=PAYG": "billing_kind",
        }
        for query, param in wrong.items():
            answer = log(query)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        for kind in ("payg", "plan", "coupon", "token_alloc", "free", "byok"):
            assert log(f"billing_kind={kind}").status_code == 200


@pytest.mark.rule("USE-020", "USE-021")
def test_a_sum_may_touch_366_days_and_the_log_any_number(system: System) -> None:
    person = system.person()
    days = read(system, person, "/v1/usage/daily", start=1758844800, end=1790380800)["data"]
    assert (len(days), days[0]["date"], days[-1]["date"]) == (366, "2025-09-26", "2026-09-26")
    assert read(system, person, "/v1/usage", start=1758844800, end=1790380800)["data"] == []
    assert read(system, person, "/v1/usage/log", start=0)["total"] == 0


@pytest.mark.rule("USE-003", "USE-010", "USE-055", "USE-056", "ACC-003", "ACC-001")
def test_a_restricted_key_sees_itself_only(system: System) -> None:
    owner = system.person()
    with system.accounts() as accounts:
        made = accounts.CreateKey(
            accounts_pb2.CreateKeyRequest(account_id=owner.account_id, label="narrow", models=["sim-1"]), timeout=10
        )
    narrow = Person(owner.account_id, made.key.key_id, made.secret)
    for person in (owner, narrow, narrow):
        assert ask(system, person, model="sim-1").status_code == 200
    eventually(lambda: len(system.usage(owner)) == 3)
    theirs = next(row["id"] for row in system.usage(owner) if row["api_key_id"] == owner.key_id)

    assert read(system, owner, "/v1/usage")["total"]["requests"] == 3
    assert read(system, owner, "/v1/usage", api_key_id=narrow.key_id)["total"]["requests"] == 2
    assert read(system, owner, "/v1/usage", api_key_id="key_of_nobody")["data"] == []
    for query in ({}, {"api_key_id": narrow.key_id}):
        assert read(system, narrow, "/v1/usage", **query)["total"]["requests"] == 2
        assert sum(day["requests"] for day in read(system, narrow, "/v1/usage/daily", **query)["data"]) == 2
        assert read(system, narrow, "/v1/usage/log", **query)["total"] == 2
    with system.http(narrow) as client:
        for path in ALL:
            for other in (owner.key_id, "key_of_nobody"):
                answer = client.get(path, params={"api_key_id": other})
                assert (answer.status_code, answer.json()["error"]["param"]) == (400, "api_key_id")
        assert client.get(f"/v1/usage/log/{theirs}").status_code == 404


@pytest.mark.rule("USE-057", "ACC-004")
@pytest.mark.parametrize("path", [*ALL, "/v1/usage/log/" + "0" * 32])
def test_a_shared_key_reads_no_usage(system: System, path: str) -> None:
    shared = system.person(kind=accounts_pb2.KEY_KIND_SHARED, models=["sim-1"], expires_in_days=30)
    with system.http(shared) as client:
        answer = client.get(path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (403, "shared_key_not_allowed", "permission_error")


@pytest.mark.rule("USE-002")
@pytest.mark.parametrize("path", ALL)
def test_usage_needs_a_key(system: System, path: str) -> None:
    answer = httpx.get(f"{system.base_url}{path}")
    assert (answer.status_code, answer.text) == (401, "missing authorization")


@pytest.mark.rule("USE-058", "USE-059")
def test_all_reads_of_usage_share_sixty_a_minute(system: System) -> None:
    person = system.person()
    with system.http(person) as client:
        paths = [*ALL, "/v1/usage/log/" + "0" * 32] * 15
        statuses = [client.get(path).status_code for path in paths]
        assert set(statuses) == {200, 404}
        for path in ALL:
            refused = client.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
            assert "retry-after" not in refused.headers
    assert ask(system, person, model="sim-1").status_code == 200


@pytest.mark.rule("AUTH-036")
def test_the_description_knows_the_reads_of_usage(system: System) -> None:
    paths = httpx.get(f"{system.base_url}/openapi.json").json()["paths"]
    for path in SUMS:
        described = paths[path]["get"]
        names = {parameter["name"] for parameter in described["parameters"]}
        assert names == {"range", "start", "end", "model", "api_key_id"}
        assert set(described["responses"]) == {"200", "400", "401", "403", "429", "500"}
    assert set(paths["/v1/usage/log/{request_id}"]["get"]["responses"]) == {"200", "401", "403", "404", "429", "500"}
