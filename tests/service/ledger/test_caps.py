"""Caps of keys and members: hard under concurrency, lowered within, renewed, and told of once."""

import asyncio
from typing import Any

import pytest

from libs.events.ledger import AlertRaised
from services.ledger.domain.calls import Denied, Granted, InvalidCallError, KeyCaps
from services.ledger.funding_settings import Choice
from tests.service.ledger.conftest import Books, opened, reserve, settle
from tests.service.ledger.funding import DAY_MS, RUPIAH, Funds, amount, spend, told
from tests.support.stack import Postgres

COST = 600_000


@pytest.fixture
def funds(books: Books) -> Funds:
    return Funds(books)


def spend_cap(micro: int, **more: Any) -> KeyCaps:
    return KeyCaps(spend=micro, **more)


@pytest.mark.rule("AUTH-059")
async def test_a_key_spends_up_to_its_cap_and_no_further(books: Books, account: str) -> None:
    await books.credit(account, 50_000_000)
    caps = spend_cap(2 * COST)

    # What a request may cost is held on the cap: 50 tokens of output are all that fits now.
    assert await spend(books, account, caps=caps, max_tokens=50) == "payg"
    assert await spend(books, account, caps=caps, max_tokens=50) == "payg"
    refused = await books.reserve(reserve(account, caps=caps, max_tokens=1))

    assert isinstance(refused, Denied)
    assert (refused.status, refused.code) == (402, "key_spend_cap_reached")
    # The cap is the key's: another one goes on.
    assert await spend(books, account, key_id="key_2") == "payg"


async def test_a_cap_lowers_a_request_to_what_fits_it(books: Books, account: str) -> None:
    await books.credit(account, 10**9)
    caps = spend_cap(200_000 + 2_000 * 8_000)

    granted = await books.granted(reserve(account, caps=caps, max_tokens=60_000))
    other = await books.reserve(reserve(account, caps=caps, max_tokens=60_000))

    assert (granted.max_tokens, granted.lowered) == (2_000, True)
    assert isinstance(other, Denied)
    tokens = await books.granted(reserve(account, caps=KeyCaps(tokens=3_100), max_tokens=60_000, key_id="key_2"))
    assert tokens.max_tokens == 3_000


async def test_a_cap_holds_against_many_requests_at_once(postgres: Postgres, dsn: str, account: str) -> None:
    async with opened(postgres, dsn) as books, opened(postgres, dsn) as other:
        await books.credit(account, 10**12)
        caps = spend_cap(10 * (200_000 + 500 * 8_000))
        answers = await asyncio.gather(
            *(one.reserve(reserve(account, caps=caps)) for one in (books, other) for _ in range(32))
        )
        assert sum(isinstance(answer, Granted) for answer in answers) == 10
        await books.assert_sound()


@pytest.mark.rule("AUTH-058")
async def test_a_cap_counts_list_prices_whoever_pays_but_not_what_is_free(
    books: Books, funds: Funds, account: str
) -> None:
    await funds.plan(free_cache=["sim-1"], **amount("month", 100))
    await books.credit(account, 50_000_000)
    await funds.grant(account)
    caps = spend_cap(100 * RUPIAH)

    assert await spend(books, account, caps=caps) == "plan"
    assert await spend(books, account, caps=caps, model="other") == "payg"
    free = reserve(account, caps=caps, funding="free", model="sim-1:free")
    granted = await books.granted(free)
    await books.settle(settle(free, granted.descriptor, billing_kind="free"))

    row = await books.admin.fetchrow("select spent, reserved, tokens from key_spend")
    assert tuple(row) == (2 * COST, 0, 300)
    use = await funds.reads.key_use(account, "key_1", caps, 0)
    assert (use.spent, use.reserved) == (2 * COST, 0)


async def test_a_reached_cap_refuses_free_models_too(books: Books, account: str) -> None:
    await books.credit(account, 50_000_000)
    caps = spend_cap(COST)
    await spend(books, account, caps=caps, max_tokens=50)

    refused = await books.reserve(reserve(account, caps=caps, funding="free", model="sim-1:free"))

    assert isinstance(refused, Denied)
    assert refused.code == "key_spend_cap_reached"


@pytest.mark.rule("AUTH-060", "AUTH-064")
async def test_a_token_cap_counts_every_request_and_holds_what_may_be_used(books: Books, account: str) -> None:
    caps = KeyCaps(tokens=1_000)
    for funding in ("free", "byok"):
        call = reserve(account, caps=caps, funding=funding, max_tokens=300)
        granted = await books.granted(call)
        assert (granted.billing_kind, granted.hold) == (funding, 0)
        assert await books.admin.fetchval("select tokens_reserved from key_spend") == 400
        await books.settle(settle(call, granted.descriptor, billing_kind=funding, completion=200))

    assert await books.admin.fetchval("select tokens from key_spend") == 600
    refused = await books.reserve(reserve(account, caps=caps, funding="free", max_tokens=301))
    assert isinstance(refused, Denied)
    nothing = reserve(account, caps=caps, funding="free", max_tokens=300)
    granted = await books.granted(nothing)
    await books.settle(settle(nothing, granted.descriptor, billing_kind="free", completion=0))
    assert await books.admin.fetchval("select tokens from key_spend") == 600


@pytest.mark.parametrize("period", ["day", "week", "month"])
async def test_caps_may_start_anew_by_the_calendar_or_by_the_owner(books: Books, account: str, period: str) -> None:
    await books.credit(account, 50_000_000)
    caps = spend_cap(COST, period=period)
    await spend(books, account, caps=caps, max_tokens=50)
    assert isinstance(await books.reserve(reserve(account, caps=caps, max_tokens=50)), Denied)
    # The day before the present period began.
    await books.admin.execute("update key_spend set starts = starts - 40")
    await books.admin.execute("update hold set key_starts = key_starts - 40")

    assert await spend(books, account, caps=caps, max_tokens=50) == "payg"
    anew = spend_cap(COST, period=period, epoch=1)
    assert await spend(books, account, caps=anew, max_tokens=50) == "payg"


async def test_a_hold_of_an_old_period_is_settled_there(books: Books, account: str) -> None:
    await books.credit(account, 50_000_000)
    caps = spend_cap(100 * RUPIAH, period="day")
    call = reserve(account, caps=caps)
    granted = await books.granted(call)
    await books.admin.execute("update key_spend set starts = starts - 1")
    await books.admin.execute("update hold set key_starts = key_starts - 1")
    await spend(books, account, caps=caps)

    await books.settle(settle(call, granted.descriptor))

    rows = await books.admin.fetch("select spent, reserved from key_spend order by starts")
    assert [tuple(row) for row in rows] == [(COST, 0), (COST, 0)]


async def test_a_key_that_reached_its_cap_is_told_of_once(books: Books, account: str) -> None:
    await books.credit(account, 50_000_000)
    caps = spend_cap(COST)
    await spend(books, account, caps=caps, max_tokens=50)
    for _ in range(3):
        await books.reserve(reserve(account, caps=caps))

    alerts = [one for one in await told(books, AlertRaised) if one.kind == "key.cap.hit"]
    assert [(one.subject, one.used_micro_idr, one.limit_micro_idr) for one in alerts] == [("key_1", COST, COST)]


async def test_a_member_draws_up_to_the_cap_within_thirty_days(books: Books, funds: Funds, account: str) -> None:
    await books.credit(account, 10**9)
    assert await spend(books, account, member_id="person_1") == "payg"
    await funds.settings.cap_member(account, "person_1", 3 * COST)

    # What was drawn before the cap was set counts: 2 x 600,000 are left.
    assert await spend(books, account, member_id="person_1", max_tokens=125) == "payg"
    refused = await books.reserve(reserve(account, member_id="person_1", max_tokens=60))
    again = await books.reserve(reserve(account, member_id="person_1", max_tokens=60))

    assert isinstance(refused, Denied)
    assert isinstance(again, Denied)
    assert (refused.status, refused.code) == (402, "member_spend_cap_reached")
    assert await spend(books, account, member_id="person_2") == "payg"
    (cap,) = (await funds.of(account)).member_caps
    assert (cap.member_id, cap.cap_micro_idr, cap.spent_micro_idr) == ("person_1", 3 * COST, 2 * COST)
    assert [one.subject for one in await told(books, AlertRaised) if one.kind == "member.cap.hit"] == ["person_1"]

    await books.admin.execute("update spend_mark set minute = minute - 31 * 1440")
    await books.admin.execute("update member_spend set mark_minute = 0")
    assert await spend(books, account, member_id="person_1", max_tokens=50) == "payg"
    await funds.settings.cap_member(account, "person_1", None)
    assert await spend(books, account, member_id="person_1", max_tokens=9_999) == "payg"


async def test_a_members_cap_lowers_a_request_and_spares_the_plan(books: Books, funds: Funds, account: str) -> None:
    await funds.plan(models=["covered"], **amount("month", 100))
    await books.credit(account, 10**9)
    await funds.grant(account)
    await funds.settings.cap_member(account, "person_1", 200_000 + 1_500 * 8_000)

    granted = await books.granted(reserve(account, member_id="person_1", max_tokens=60_000))
    assert granted.max_tokens == 1_500
    assert await spend(books, account, member_id="person_1", model="covered", max_tokens=60_000) == "plan"


async def test_refusals_name_the_narrowest_owner_first(books: Books, funds: Funds, account: str) -> None:
    await books.credit(account, 2 * COST)
    await spend(books, account, member_id="person_1", max_tokens=50)
    capped = spend_cap(1)

    async def code(**more: Any) -> str:
        answer = await books.reserve(reserve(account, member_id="person_1", **more))
        assert isinstance(answer, Denied)
        return answer.code

    assert await code(max_tokens=9_000) == "insufficient_balance"
    await funds.settings.cap_member(account, "person_1", COST)
    assert await code() == "member_spend_cap_reached"
    await funds.settings.choose(account, Choice(payg_limit=(COST, "day")))
    assert await code() == "payg_limit_reached"
    assert await code(caps=capped) == "key_spend_cap_reached"
    await funds.settings.choose(account, Choice(payg_limit=(0, "")))
    assert await code() == "member_spend_cap_reached"


async def test_a_shared_key_is_told_nothing_of_its_owners_money(books: Books, account: str) -> None:
    await books.credit(account, 5)

    refused = await books.reserve(reserve(account, shared_key=True))

    assert isinstance(refused, Denied)
    assert (refused.code, refused.available) == ("insufficient_balance", 0)
    assert "owner" in refused.message
    assert "Rp" not in refused.message


@pytest.mark.parametrize("wrong", [{"caps": KeyCaps(spend=-1, tokens=5)}, {"caps": KeyCaps(spend=1, period="year")}])
async def test_caps_that_make_no_sense_are_refused(account: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidCallError):
        reserve(account, **wrong).check()


async def test_the_balance_alert_fires_once_until_a_top_up_arms_it(books: Books, funds: Funds, account: str) -> None:
    await funds.settings.choose(account, Choice(low_balance=20 * RUPIAH))
    await books.credit(account, 20 * RUPIAH)
    for _ in range(2):
        await spend(books, account)
    await books.credit(account, 100_000)
    await spend(books, account)
    await books.credit(account, 10 * RUPIAH)
    for _ in range(20):
        await spend(books, account)

    alerts = [one for one in await told(books, AlertRaised) if one.kind == "wallet.low"]
    assert [one.used_micro_idr for one in alerts] == [20 * RUPIAH - COST, 19_900_000]


async def test_days_are_utc_days(books: Books, funds: Funds, account: str) -> None:
    caps = spend_cap(5, period="day")
    assert (await funds.reads.key_use(account, "key_1", caps, 20_000 * DAY_MS)).spent == 0
