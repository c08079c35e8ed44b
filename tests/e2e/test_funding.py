"""Which source pays for a request, as its client sees it: headers, model, log, and nothing moved but what should."""

import httpx
import pytest
from kenari.accounts.v1 import accounts_pb2
from kenari.ledger.v1 import funding_pb2, ledger_pb2

from tests.cases.answers import says_ok
from tests.cases.caller import FORMATS, Caller, join, user
from tests.support.background import BackgroundProvider
from tests.support.provider import Received, Scripted, completion, json_answer
from tests.support.purse import RUPIAH, Purse
from tests.support.system import Person, System, eventually

BALANCE, LEFT = "x-kenari-balance-micro-idr", "x-kenari-plan-remaining"
INPUT, OUTPUT = 4_200, 24_000
OK = 10 * INPUT + 2 * OUTPUT
SHARED = {"kind": accounts_pb2.KEY_KIND_SHARED, "models": ["fx-oai"], "expires_in_days": 1}


@pytest.fixture
def provider(first: BackgroundProvider) -> BackgroundProvider:
    """Answers "ok" for 10 and 2 tokens."""
    first.answers(says_ok)
    return first


def somebody(system: System, rupiahs: int = 100_000) -> tuple[Purse, Caller]:
    person = system.person(rupiahs)
    return Purse(system, person), Caller(system, person)


def settled(system: System, answer: httpx.Response) -> str:
    """Who paid for an answered request, once its usage is in the books."""
    assert answer.status_code == 200, answer.text
    request_id = answer.headers["x-request-id"]
    books = eventually(lambda: (found := system.request(request_id)).usage and found)
    return str(books.usage[0].billing_kind)


def hold_of(system: System, answer: httpx.Response) -> tuple[int, int]:
    """What was held for a request, and for how many tokens of output."""
    (hold,) = system.request(answer.headers["x-request-id"]).holds
    return hold.amount_micro_idr, hold.max_tokens


@pytest.mark.rule("BILL-001", "NOTE-082", "NOTE-084", "NOTE-085")
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_reply_from_the_balance_says_what_is_left(
    system: System, provider: BackgroundProvider, format: str, streamed: bool
) -> None:
    caller = Caller(system, system.person())
    answer = caller.ask(format, "fx-oai", stream=streamed)
    assert settled(system, answer) == "payg"
    held, _ = hold_of(system, answer)
    assert int(answer.headers[BALANCE]) == 100_000 * RUPIAH - held
    assert LEFT not in answer.headers
    assert caller.settled() == 100_000 * RUPIAH - OK


@pytest.mark.rule("NOTE-083", "NOTE-082", "NOTE-084")
def test_the_balance_is_told_to_no_shared_key_and_not_for_free_answers(
    system: System, provider: BackgroundProvider
) -> None:
    purse, caller = somebody(system)
    shared = Caller(system, purse.key(**SHARED))
    assert settled(system, answer := shared.chat()) == "payg"
    assert BALANCE not in answer.headers
    free = caller.chat("fx-free:free")
    assert settled(system, free) == "free"
    assert not {BALANCE, LEFT} & set(free.headers)
    assert caller.settled() == 100_000 * RUPIAH - OK


@pytest.mark.rule("BILL-033", "BILL-034")
@pytest.mark.parametrize("streamed", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("format", FORMATS)
def test_max_tokens_are_lowered_to_what_the_balance_pays(
    system: System, first: BackgroundProvider, format: str, streamed: bool
) -> None:
    first.answers(cut_off)
    caller = Caller(system, system.person(rupiahs=30))
    limit = "max_output_tokens" if format == "responses" else "max_tokens"
    answer = caller.ask(format, "fx-oai", stream=streamed, **{limit: 8_000})
    assert settled(system, answer) == "payg"
    held, lowered = hold_of(system, answer)
    sent = first.requests[0].json
    assert sent.get("max_completion_tokens", sent.get("max_tokens")) == lowered
    # One token more would not have fitted.
    assert lowered >= 1_024 and held <= 30 * RUPIAH < held + OUTPUT
    ends = {"chat": "length", "messages": "max_tokens", "responses": "incomplete"}
    assert _end(format, answer, streamed) == ends[format]


def cut_off(request: Received) -> Scripted:
    """An answer that ended at its limit, in the shape that was asked for."""
    said = says_ok(request)
    return Scripted(
        tuple(step.replace(b'"stop"', b'"length"') if isinstance(step, bytes) else step for step in said.steps),
        said.status, {name: value for name, value in said.headers.items() if name != "content-length"}, said.chunked,
    )  # fmt: skip


def _end(format: str, answer: httpx.Response, streamed: bool) -> object:
    if streamed:
        return join(format, answer).finish
    body = answer.json()
    if format == "chat":
        return body["choices"][0]["finish_reason"]
    return body["stop_reason"] if format == "messages" else body["status"]


@pytest.mark.rule("BILL-030")
def test_without_max_tokens_the_default_is_held_as_far_as_the_model_goes(
    system: System, provider: BackgroundProvider
) -> None:
    caller = Caller(system, system.person())
    most = {}
    for model, words in (("fx-vast", 1), ("fx-oai", 1), ("fx-small", 1_000)):
        answer = caller.chat(model, messages=[user("word " * words)])
        settled(system, answer)
        most[model] = hold_of(system, answer)[1]
    assert (most["fx-vast"], most["fx-oai"]) == (65_536, 8_192)
    # What the input leaves of a context of 2,000.
    assert 500 <= most["fx-small"] <= 1_100


@pytest.mark.rule("ACC-012", "ACC-016")
def test_below_nothing_there_is_nothing_to_spend(system: System, provider: BackgroundProvider) -> None:
    purse, caller = somebody(system)
    purse.sql("update wallet set paid = $2 where account_id = $1", purse.person.account_id, -5 * RUPIAH)
    balance = system.balance(purse.person)
    assert (balance["balance_micro_idr"], balance["available_micro_idr"]) == (-5 * RUPIAH, 0)
    assert caller.chat().status_code == 402
    assert caller.chat("fx-free:free").status_code == 200


@pytest.mark.rule("BILL-033")
def test_the_strict_dialect_is_lowered_alike(system: System, first: BackgroundProvider) -> None:
    first.answers(cut_off)
    caller = Caller(system, system.person(rupiahs=30))
    answer = caller.kyara(model="fx-oai", max_tokens=8_000)
    assert settled(system, answer) == "payg"
    held, lowered = hold_of(system, answer)
    assert lowered >= 1_024 and held <= 30 * RUPIAH < held + OUTPUT
    assert answer.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.rule("BILL-033", "BILL-035")
def test_what_asks_for_less_than_a_thousand_tokens_runs_whole_or_not_at_all(
    system: System, provider: BackgroundProvider
) -> None:
    caller = Caller(system, system.person(rupiahs=3))
    assert caller.chat(max_tokens=1_023).status_code == 402
    assert not provider.requests
    assert caller.chat(max_tokens=100).status_code == 200
    assert provider.requests[0].json.get("max_tokens", provider.requests[0].json.get("max_completion_tokens")) == 100


@pytest.mark.rule("ERR-068", "ERR-070", "ERR-071")
def test_a_members_cap_lowers_and_then_refuses(system: System, first: BackgroundProvider) -> None:
    first.answers(completion("ok", usage=(1_000, 1_000)))
    purse, _ = somebody(system)
    member = purse.member()
    with system.accounts() as accounts:
        listed = accounts.ListMembers(accounts_pb2.ListMembersRequest(account_id=member.account_id), timeout=10).members
    member_id = next(one.person.person_id for one in listed if one.role == accounts_pb2.ROLE_MEMBER)
    purse.cap_member(member_id, 40 * RUPIAH)
    answer = Caller(system, member).chat(max_tokens=8_000)
    assert settled(system, answer) == "payg"
    held, lowered = hold_of(system, answer)
    assert held <= 40 * RUPIAH < held + OUTPUT and lowered < 8_000
    refused = Caller(system, member).chat(max_tokens=8_000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (402, "member_spend_cap_reached")
    (cap,) = purse.read().member_caps
    assert (cap.member_id, cap.spent_micro_idr) == (member_id, 1_000 * INPUT + 1_000 * OUTPUT)
    # The owner's own key, and free models, are none of the cap's.
    assert Caller(system, purse.person).chat().status_code == 200
    assert Caller(system, member).chat("fx-free:free").status_code == 200
    purse.give_plan(week_micro_idr=RUPIAH)
    assert settled(system, Caller(system, member).chat()) == "plan"


@pytest.mark.rule("SUB-062", "SUB-063", "SUB-001", "USE-023", "USE-024", "USE-026", "USE-027", "USE-047")
def test_coupon_then_tokens_then_plan_then_balance(system: System, provider: BackgroundProvider) -> None:
    purse, caller = somebody(system)
    purse.coupon(budget=1)
    purse.tokens(1, "fx-oai")
    purse.give_plan(week_micro_idr=1)
    purse.choose(keep_balance=True)
    paid = []
    for _ in range(4):
        answer = caller.chat()
        paid.append(settled(system, answer))
        assert (BALANCE in answer.headers) == (paid[-1] == "payg")
    assert paid == ["coupon", "token_alloc", "plan", "payg"]
    read = purse.read()
    assert read.coupons[0].used_micro_idr == OK
    assert read.token_allocations[0].used == 12
    assert purse.windows() == {"week": (OK, 0)}
    rows = caller.log(4)
    assert [(row["billing_kind"], row["cost_micro_idr"], row["catalog_micro_idr"]) for row in rows] == [
        ("coupon", 0, OK), ("token_alloc", 0, OK), ("plan", 0, OK), ("payg", OK, OK),
    ]  # fmt: skip
    # The maker of the model, not who served it.
    assert {row["vendor"] for row in rows} == {"fixtures"}
    assert caller.settled() == 100_000 * RUPIAH - OK


@pytest.mark.rule("SUB-062", "BILL-037", "SUB-065", "SUB-066")
def test_a_coupon_pays_at_a_balance_of_nothing_until_it_expires(system: System, provider: BackgroundProvider) -> None:
    purse, caller = somebody(system, rupiahs=0)
    purse.coupon(budget=None, models=("fx-oai", "fx-members"))
    assert settled(system, caller.chat()) == "coupon"
    # A coupon that names a model for subscribers opens it.
    assert settled(system, caller.chat("fx-members")) == "coupon"
    assert caller.chat("fx-other").status_code == 402
    purse.later(8 * 86_400_000)
    assert caller.chat().status_code == 402
    assert caller.chat("fx-members").status_code == 403


@pytest.mark.rule("SUB-064")
def test_a_spent_coupon_without_a_plan_follows_the_settings(system: System, provider: BackgroundProvider) -> None:
    purse, caller = somebody(system)
    purse.coupon(budget=1)
    assert settled(system, caller.chat()) == "coupon"
    assert settled(system, caller.chat()) == "payg"
    purse.choose(free_fallback=True)
    assert settled(system, caller.chat()) == "free"


@pytest.mark.rule("BILL-038", "BILL-039", "BILL-040", "USE-054")
@pytest.mark.parametrize("plan", [False, True], ids=["balance", "plan"])
def test_an_answer_without_output_costs_nothing_and_is_in_the_log(
    system: System, first: BackgroundProvider, plan: bool
) -> None:
    first.answers(completion("", usage=(1_000, 0)))
    purse, caller = somebody(system)
    if plan:
        purse.give_plan(week_micro_idr=1_000 * RUPIAH)
    caller.chat()
    (row,) = caller.log(1)
    assert (row["cost_micro_idr"], row["billing_kind"]) == (0, "plan" if plan else "payg")
    assert caller.settled() == 100_000 * RUPIAH
    if plan:
        assert purse.windows() == {"week": (0, 0)}


@pytest.mark.rule("SUB-055", "SUB-056", "SUB-057", "SUB-058", "USE-028")
def test_free_cache_spends_no_quota_and_no_balance(system: System, first: BackgroundProvider) -> None:
    counts = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    body = {
        "id": "v", "object": "chat.completion", "created": 1, "model": "v",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {**counts, "prompt_tokens_details": {"cached_tokens": 800}},
    }  # fmt: skip
    first.answers(json_answer(body))
    fresh, cached = 200 * INPUT + 100 * OUTPUT, 800 * 840
    purse, caller = somebody(system)
    plan = purse.give_plan(week_micro_idr=fresh, models=["fx-oai", "fx-mute"], free_cache=["fx-oai"])
    purse.choose(keep_balance=True)
    assert settled(system, caller.chat()) == "plan"
    assert purse.windows() == {"week": (fresh, 0)}
    assert settled(system, caller.chat()) == "payg"
    assert caller.settled() == 100_000 * RUPIAH - fresh
    # Covered, but not with free cache; and not covered at all.
    assert settled(system, caller.chat("fx-mute")) == "payg"
    assert settled(system, caller.chat("fx-two")) == "payg"
    rows = caller.log(4)
    assert [row["cost_micro_idr"] for row in rows] == [0, fresh, fresh + cached, fresh + cached]
    assert {row["catalog_micro_idr"] for row in rows} == {fresh + cached}
    purse.put_plan(plan, week_micro_idr=10_000 * RUPIAH, models=["fx-oai"])
    before = purse.windows()["week"][0]
    assert settled(system, caller.chat()) == "plan"
    assert purse.windows()["week"][0] == before + fresh + cached


@pytest.mark.rule("AUTH-058", "AUTH-060")
def test_a_capped_key_counts_what_a_plan_paid(system: System, provider: BackgroundProvider) -> None:
    purse, _ = somebody(system)
    purse.give_plan()
    key = purse.key(spend_cap_micro_idr=1_000 * RUPIAH, token_cap=100_000)
    capped = Caller(system, key)
    assert settled(system, capped.chat()) == "plan"
    assert settled(system, capped.chat("fx-free:free")) == "free"
    with system.funds() as funds:
        use = funds.GetKeyUsage(_usage_of(key), timeout=10)
    # The plan's list value; tokens of both.
    assert (use.spent_micro_idr, use.tokens, use.tokens_reserved) == (OK, 24, 0)


def _usage_of(key: Person) -> funding_pb2.GetKeyUsageRequest:
    caps = ledger_pb2.KeyCaps(spend_micro_idr=1_000 * RUPIAH, tokens=100_000)
    return funding_pb2.GetKeyUsageRequest(account_id=key.account_id, key_id=key.key_id, caps=caps)
