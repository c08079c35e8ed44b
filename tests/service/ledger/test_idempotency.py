"""Idempotency keys: one request has a key at a time, and what became of it is told until it is forgotten."""

import asyncio
import hashlib

import pytest

from libs.core.errors import Permanent
from libs.core.ids import uuid7_hex
from services.ledger.idempotency import (
    MAX_BODY,
    Found,
    Idempotency,
    IdempotencyKey,
    InvalidClaimError,
    Outcome,
    State,
)
from services.ledger.settings import IdempotencySettings
from tests.service.ledger.conftest import Books, reserve, settle

ONE, OTHER = (hashlib.sha256(text).digest() for text in (b"one", b"other"))
ANSWER = Outcome(
    200, ((b"content-type", b"application/json"), (b"x-kenari-gated-effort", b"\xe9")), b'{"a": "\xc3\xa9"}'
)


@pytest.fixture
def keys(books: Books) -> Idempotency:
    return Idempotency(books.database, IdempotencySettings())


@pytest.fixture
def key() -> IdempotencyKey:
    """A key nobody has used."""
    return IdempotencyKey(f"acct_{uuid7_hex()}", "", "order 7")


async def state(keys: Idempotency, key: IdempotencyKey, fingerprint: bytes = ONE) -> Found:
    """What a further request with that key is told."""
    return await keys.begin(key, uuid7_hex(), fingerprint)


async def test_a_key_is_one_requests_until_that_has_ended(keys: Idempotency, key: IdempotencyKey) -> None:
    first = uuid7_hex()
    assert await keys.begin(key, first, ONE) == Found(State.CLAIMED, first)
    assert await state(keys, key) == Found(State.RUNNING, first)
    # A repeat of the question, and what keeps the claim alive.
    assert await keys.begin(key, first, ONE) == Found(State.CLAIMED, first)
    assert await state(keys, key, OTHER) == Found(State.REUSED, first)
    await keys.end(key, first, ANSWER, free=False)
    for _ in range(2):
        assert await state(keys, key) == Found(State.KEPT, first, ANSWER)
    assert await state(keys, key, OTHER) == Found(State.REUSED, first)


async def test_keys_are_an_accounts_own_and_a_shared_keys_own(keys: Idempotency, key: IdempotencyKey) -> None:
    await keys.begin(key, uuid7_hex(), ONE)
    for other in (
        IdempotencyKey(key.account_id + "x", "", key.key),
        IdempotencyKey(key.account_id, "key_shared", key.key),
        IdempotencyKey(key.account_id, "", key.key + "x"),
    ):
        assert (await state(keys, other, OTHER)).state is State.CLAIMED


async def test_a_freed_key_is_anybodys_and_a_lost_outcome_is_told(keys: Idempotency, key: IdempotencyKey) -> None:
    first, second = uuid7_hex(), uuid7_hex()
    await keys.begin(key, first, ONE)
    await keys.end(key, first, None, free=True)
    assert await keys.begin(key, second, OTHER) == Found(State.CLAIMED, second)
    await keys.end(key, second, None, free=False)
    assert await state(keys, key, OTHER) == Found(State.LOST, second)


async def test_of_many_at_once_one_gets_the_key(keys: Idempotency, key: IdempotencyKey) -> None:
    found = await asyncio.gather(*(state(keys, key) for _ in range(12)))
    holders = [one.request_id for one in found if one.state is State.CLAIMED]
    assert len(holders) == 1
    assert {one.request_id for one in found} == set(holders)


async def test_a_claim_ends_once_and_only_by_its_own_request(keys: Idempotency, key: IdempotencyKey) -> None:
    first = uuid7_hex()
    await keys.begin(key, first, ONE)
    await keys.end(key, uuid7_hex(), ANSWER, free=False)
    await keys.end(key, uuid7_hex(), None, free=True)
    assert (await state(keys, key)).state is State.RUNNING
    await keys.end(key, first, ANSWER, free=False)
    await keys.end(key, first, None, free=True)
    await keys.end(key, first, None, free=False)
    assert (await state(keys, key)).outcome == ANSWER


async def test_a_claim_that_nobody_keeps_alive_ends_by_itself(books: Books, key: IdempotencyKey) -> None:
    keys = Idempotency(books.database, IdempotencySettings(lease_s=0.3))
    crashed, kept = uuid7_hex(), IdempotencyKey(key.account_id, "", "kept alive")
    await keys.begin(key, crashed, ONE)
    alive = uuid7_hex()
    for _ in range(5):
        await keys.begin(kept, alive, ONE)
        await asyncio.sleep(0.1)
    assert await state(keys, kept) == Found(State.RUNNING, alive)
    # Whatever was asked under it: it is as if it had never been used.
    assert (await state(keys, key, OTHER)).state is State.CLAIMED
    await keys.end(key, crashed, ANSWER, free=False)
    assert (await state(keys, key, OTHER)).state is State.RUNNING


@pytest.mark.parametrize(("outcome", "state_then"), [("completed", State.LOST), ("interrupted", State.CLAIMED)])
async def test_an_abandoned_request_that_was_charged_is_not_run_again(
    books: Books, account: str, outcome: str, state_then: State
) -> None:
    keys = Idempotency(books.database, IdempotencySettings(lease_s=0.1))
    await books.credit(account, 100_000_000)
    hold = reserve(account)
    key = IdempotencyKey(account, "", "crashed after the charge")
    await keys.begin(key, hold.request_id, ONE)
    granted = await books.granted(hold)
    await books.settle(settle(hold, granted.descriptor, outcome=outcome))
    await asyncio.sleep(0.15)
    assert (await state(keys, key)).state is state_then


async def test_what_is_old_is_forgotten(books: Books, key: IdempotencyKey) -> None:
    keys = Idempotency(books.database, IdempotencySettings(keep_s=0.3))
    young = IdempotencyKey(key.account_id, "", "young")
    first = uuid7_hex()
    await keys.begin(key, first, ONE)
    await keys.end(key, first, ANSWER, free=False)
    await asyncio.sleep(0.35)
    # Also before the job has come by.
    assert (await state(keys, key, OTHER)).state is State.CLAIMED
    await asyncio.sleep(0.35)
    await keys.begin(young, uuid7_hex(), ONE)
    await keys.forget()
    rows = await books.admin.fetch("select key from idempotency where account_id = $1", key.account_id)
    assert [row["key"] for row in rows] == ["young"]


async def test_what_is_no_key_or_no_outcome_is_refused(keys: Idempotency, key: IdempotencyKey) -> None:
    for wrong in ("", "x" * 256, "a\0b"):
        with pytest.raises(InvalidClaimError):
            await keys.begin(IdempotencyKey("acct_a", "", wrong), uuid7_hex(), ONE)
    with pytest.raises(InvalidClaimError):
        await keys.begin(IdempotencyKey("", "", "k"), uuid7_hex(), ONE)
    with pytest.raises(InvalidClaimError):
        await keys.begin(key, uuid7_hex(), b"short")
    with pytest.raises(Permanent):
        await keys.begin(key, "no id", ONE)
    request_id = uuid7_hex()
    await keys.begin(key, request_id, ONE)
    largest = Outcome(200, (), b"x" * MAX_BODY)
    with pytest.raises(InvalidClaimError):
        await keys.end(key, request_id, Outcome(200, (), b"x" * (MAX_BODY + 1)), free=False)
    await keys.end(key, request_id, largest, free=False)
    assert (await state(keys, key)).outcome == largest
