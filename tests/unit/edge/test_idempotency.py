"""Claims of idempotency keys as the edge ends them: whatever becomes of a request, its key is told of it once."""

import asyncio
from collections.abc import MutableMapping
from typing import Any, cast

import pytest
from kenari.ledger.v1 import idempotency_pb2
from kenari.ledger.v1.idempotency_pb2 import BeginRequest, BeginResponse, Claimed, EndRequest, KeptAnswer, Named
from kenari.limiter.v1 import limiter_pb2

from libs.core.errors import KenariError, Transient
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.edge.admitted import Asked
from services.edge.clients import IdempotencyClient
from services.edge.errors import RefusedError
from services.edge.exchange import Exchange
from services.edge.idempotency import MAX_KEPT_BYTES, Claim, Idempotency, repeat
from services.edge.keys import Caller
from services.edge.limiter import LimitedError
from services.edge.limits import ChatLimits
from services.edge.reports import Run
from tests.unit.edge.peers import asked

CLAIMED = BeginResponse(claimed=Claimed())
CALLER = Caller("key_a", "acct_a")


class Ledger:
    """Answers every claim alike, or fails, or says nothing; notes how claims ended."""

    def __init__(self, answer: BeginResponse | KenariError | None = CLAIMED, *, ends: bool = True) -> None:
        self.answer = answer
        self.begun: list[BeginRequest] = []
        self.ended: list[EndRequest] = []
        self._ends = ends

    async def begin(self, request: BeginRequest) -> BeginResponse:
        self.begun.append(request)
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, KenariError):
            raise self.answer
        assert self.answer is not None
        return self.answer

    async def end(self, request: EndRequest) -> None:
        if not self._ends:
            raise Transient("away")
        self.ended.append(request)


class Limits:
    """Counts repeats; refuses what was refused before, or what is too much now."""

    def __init__(self) -> None:
        self.repeats = 0
        self.refused_before = self.refuses = False

    def check(self, asked: Asked) -> None:
        if self.refused_before:
            raise LimitedError(limiter_pb2.Refused(code="rate_limit_exceeded"))

    async def count_repeat(self, asked: Asked) -> None:
        self.repeats += 1
        if self.refuses:
            raise LimitedError(limiter_pb2.Refused(code="rate_limit_exceeded"))


class Asking:
    """One request to an edge that knows that ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.limits = Limits()
        client, limits = cast("IdempotencyClient", ledger), cast("ChatLimits", self.limits)
        self.keys = Idempotency(client, limits, Telemetry("edge", TelemetrySettings()))
        self.sent: list[MutableMapping[str, Any]] = []
        self.exchange = Exchange({"path": "/v1/messages", "headers": []}, self._receive, self._send)
        self.run = Run(self.exchange.request_id, 0.0, 0, "chat", "openai_chat")

    async def claim(self, key: str = "k", caller: Caller = CALLER, body: bytes = b"{}") -> Claim:
        claim = await self.keys.claim(key, self.exchange, self.run, asked("m", caller), body)
        assert isinstance(claim, Claim)
        return claim

    async def ends(self) -> list[Any]:
        """How the claim ended, once nothing is on its way any more."""
        await self.keys.stop()
        return [request.WhichOneof("ends") for request in self.ledger.ended]

    async def _receive(self) -> dict[str, Any]:
        raise AssertionError("nothing is read")

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


async def test_a_whole_answer_is_kept_before_its_last_byte_leaves() -> None:
    asking = Asking(Ledger())
    claim = await asking.claim()
    await asking.exchange.open(((b"content-type", b"text/event-stream"), (b"x-kenari-gated-effort", b"low"),
                                (b"x-kenari-balance-micro-idr", b"7"), (b"set-cookie", b"no")))  # fmt: skip
    await asking.exchange.write(b"one ")
    await asking.exchange.write(b"two")
    assert not asking.ledger.ended
    asking.run.prompt_tokens = 5
    await asking.exchange.end()
    (ended,) = asking.ledger.ended
    assert (ended.outcome.status, ended.outcome.body) == (200, b"one two")
    headers = {header.name: header.value for header in ended.outcome.headers}
    assert headers == {b"content-type": b"text/event-stream", b"x-kenari-gated-effort": b"low"}
    assert b"".join(message.get("body", b"") for message in asking.sent) == b"one two"
    claim.close()
    assert await asking.ends() == ["outcome"]


@pytest.mark.parametrize(
    ("tokens", "error", "billing", "ends"),
    [
        (0, None, "payg", "freed"),
        (5, None, "payg", "unkept"),
        (5, None, "free", "freed"),
        (5, "upstream_error", "payg", "freed"),
    ],
    ids=["nothing-delivered", "charged", "free", "interrupted"],
)
async def test_a_request_that_ends_without_its_last_byte(
    tokens: int, error: str | None, billing: str, ends: str
) -> None:
    asking = Asking(Ledger())
    claim = await asking.claim()
    await asking.exchange.open(((b"content-type", b"text/event-stream"),))
    asking.run.prompt_tokens, asking.run.error_code, asking.run.billing_kind = tokens, error, billing
    claim.close()
    claim.close()
    assert await asking.ends() == [ends]


async def test_an_error_frees_the_key_before_it_is_told() -> None:
    asking = Asking(Ledger())
    claim = await asking.claim()
    claim.close()
    asking.run.error_code = "upstream_error"
    await asking.exchange.respond(503, b"{}")
    assert len(asking.ledger.ended) == 1
    assert await asking.ends() == ["freed"]


async def test_an_answer_too_long_to_be_kept_is_known_to_be_lost() -> None:
    for size, ends in ((MAX_KEPT_BYTES, "outcome"), (MAX_KEPT_BYTES + 1, "unkept")):
        asking = Asking(Ledger())
        await asking.claim()
        await asking.exchange.respond(200, b"x" * size)
        assert await asking.ends() == [ends]
        assert len(asking.sent[-1]["body"]) == size


@pytest.mark.parametrize("how", ["cancelled", "away"])
async def test_a_claim_of_which_nobody_knows_is_given_back(how: str) -> None:
    asking = Asking(Ledger(None if how == "cancelled" else Transient("away")))
    task = asyncio.create_task(asking.claim())
    await asyncio.sleep(0.01)
    if how == "cancelled":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(RefusedError) as refused:
            await task
        assert refused.value.error.status == 503
    assert await asking.ends() == ["freed"]


async def test_an_answer_leaves_even_when_its_outcome_cannot_be_kept() -> None:
    asking = Asking(Ledger(ends=False))
    await asking.claim()
    await asking.exchange.respond(200, b"{}")
    assert asking.sent[-1]["body"] == b"{}"


async def test_running_claims_are_kept_alive_and_ended_ones_are_not() -> None:
    asking = Asking(Ledger())
    claim = await asking.claim()
    await asking.keys.keep_alive()
    assert asking.ledger.begun == [claim.begin] * 2
    claim.close()
    await asking.keys.keep_alive()
    assert len(asking.ledger.begun) == 2


async def test_a_key_is_the_accounts_or_the_shared_keys_and_tells_bodies_and_endpoints_apart() -> None:
    asking = Asking(Ledger())
    await asking.claim(" k ")
    await asking.claim("k", Caller("key_b", "acct_a", kind="login"))
    await asking.claim("k", Caller("key_s", "acct_a", kind="shared"))
    await asking.claim("k", body=b"{} ")
    asking.run.client_format = "anthropic_messages"
    await asking.claim("k")
    keys = [request.key for request in asking.ledger.begun]
    own = idempotency_pb2.IdempotencyKey(account_id="acct_a", key="k")
    assert keys[:2] == keys[3:] == [own] * 2
    assert (keys[2].account_id, keys[2].key_id) == ("acct_a", "key_s")
    first, same, shared, *others = (request.fingerprint for request in asking.ledger.begun)
    assert first == same == shared
    assert len({first, *others}) == 3


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (BeginResponse(running=Named(request_id="r0")), 409, "idempotency_in_progress"),
        (BeginResponse(reused=Named(request_id="r0")), 422, "idempotency_key_reused"),
        (BeginResponse(lost=Named(request_id="r0")), 409, "idempotency_outcome_not_kept"),
    ],
)
async def test_what_stands_in_the_way_names_the_request(answer: BeginResponse, status: int, code: str) -> None:
    asking = Asking(Ledger(answer))
    with pytest.raises(RefusedError) as refused:
        await asking.claim()
    error = refused.value.error
    assert (error.status, error.code) == (status, code)
    assert "r0" in error.message
    # The refusal itself is nobody's outcome.
    await asking.exchange.respond(status, b"{}")
    assert await asking.ends() == []


@pytest.mark.parametrize(
    "answer",
    [
        BeginResponse(running=Named(request_id="r0")),
        BeginResponse(reused=Named(request_id="r0")),
        BeginResponse(lost=Named(request_id="r0")),
        BeginResponse(outcome=KeptAnswer(request_id="r0", status=200)),
    ],
)
async def test_a_repeat_counts_as_a_request_whatever_it_is_told(answer: BeginResponse) -> None:
    asking = Asking(Ledger(answer))
    asking.limits.refuses = True
    with pytest.raises(LimitedError):
        await asking.claim()
    assert asking.limits.repeats == 1


async def test_a_first_request_is_counted_where_it_is_admitted() -> None:
    asking = Asking(Ledger())
    await asking.claim()
    assert asking.limits.repeats == 0


async def test_a_flood_of_repeats_does_not_reach_the_ledger() -> None:
    asking = Asking(Ledger())
    asking.limits.refused_before = True
    with pytest.raises(LimitedError):
        await asking.claim()
    assert not asking.ledger.begun


async def test_a_repeat_carries_its_own_id_and_that_of_the_request_it_repeats() -> None:
    asking = Asking(Ledger())
    kept = KeptAnswer(request_id="r0", status=200, body=b"data: x\n\n")
    kept.headers.add(name=b"content-type", value=b"text/event-stream")
    await repeat(asking.exchange, kept)
    headers = dict(asking.sent[0]["headers"])
    assert headers[b"x-request-id"] == asking.exchange.request_id.encode()
    assert headers[b"x-kenari-request-id"] == b"r0"
    assert headers[b"idempotency-replayed"] == b"true"
    assert asking.sent[1]["body"] == b"data: x\n\n"
