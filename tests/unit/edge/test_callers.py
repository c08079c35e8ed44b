"""The door of every endpoint: whose key is asked about, and what an address counts as."""

from dataclasses import replace
from typing import Any, cast

import pytest
from kenari.limiter.v1 import limiter_pb2
from pydantic import SecretStr

from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.checks import CheckClient
from services.edge.address import Addresses
from services.edge.callers import Callers
from services.edge.errors import PlainRefusedError
from services.edge.exchange import Exchange
from services.edge.keys import Caller, KeyDirectory
from services.edge.limiter import LimitedError, Limiter
from services.edge.settings import EdgeSettings
from tests.unit.edge.peers import Scripted

PLAIN = Caller("key_a", "acct_a")
SHARED = replace(PLAIN, kind="shared")
LIMITED = replace(PLAIN, requests_per_minute=7)


class Keys:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def caller(self, _: Exchange) -> Caller:
        return self._caller


class Door:
    """A door before one caller, and a limiter that answers with ``refused`` or allows."""

    def __init__(self, caller: Caller, refused: limiter_pb2.Refused | None = None) -> None:
        answer = limiter_pb2.AdmitResponse(refused=refused)
        if refused is None:
            answer = limiter_pb2.AdmitResponse(allowed=limiter_pb2.Allowed())
        self.peer = Scripted(limiter_pb2.CheckReply, admit=lambda _: answer)
        settings = EdgeSettings(key_hash_secret=SecretStr("s" * 32))
        limiter = Limiter(cast("CheckClient", self.peer), settings, Telemetry("edge", TelemetrySettings()))
        self._callers = Callers(cast("KeyDirectory", Keys(caller)), Addresses(()), limiter)

    async def enter(self, client: tuple[str, int] | None = ("198.51.100.7", 1)) -> Caller:
        scope: dict[str, Any] = {"type": "http", "path": "/v1/models", "headers": [], "client": client}
        return await self._callers.caller(Exchange(scope, cast("Any", None), cast("Any", None)))

    @property
    def questions(self) -> list[limiter_pb2.AdmitRequest]:
        return self.peer.questions("admit")


async def test_nobody_is_asked_about_a_key_without_limits_of_its_own() -> None:
    door = Door(PLAIN)
    assert await door.enter() is PLAIN
    assert not door.questions


async def test_a_shared_key_is_asked_about_with_its_address() -> None:
    door = Door(SHARED)
    assert await door.enter() is SHARED
    (asked,) = door.questions
    assert asked.subject == limiter_pb2.SUBJECT_KEY_REQUEST
    assert (asked.account_id, asked.key_id, asked.key_shared) == ("acct_a", "key_a", True)
    assert asked.address == "198.51.100.7"
    assert asked.request_id


async def test_an_own_key_with_a_pace_is_asked_about_without_an_address() -> None:
    door = Door(LIMITED)
    await door.enter()
    (asked,) = door.questions
    assert (asked.key_rpm, asked.key_shared, asked.address) == (7, False, "")


@pytest.mark.parametrize(
    ("client", "counted"),
    [
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::"),
        (("2001:db8:1:2:ffff::1", 1), "2001:db8:1:2::"),
        (("2001:db8:1:3::1", 1), "2001:db8:1:3::"),
        (("::ffff:198.51.100.7", 1), "198.51.100.7"),
        (None, "unknown"),
    ],
    ids=["v6", "same-network", "next-network", "v4-in-v6", "none"],
)
async def test_what_an_address_counts_as(client: tuple[str, int] | None, counted: str) -> None:
    door = Door(SHARED)
    await door.enter(client)
    assert door.questions[0].address == counted


@pytest.mark.rule("LIMIT-042")
async def test_an_address_over_its_pace_is_told_so_in_plain_text() -> None:
    refused = limiter_pb2.Refused(code="rate_limit_exceeded", limit=limiter_pb2.LIMIT_ADDRESS)
    with pytest.raises(PlainRefusedError) as told:
        await Door(SHARED, refused).enter()
    assert (told.value.status, told.value.text) == (429, "too many requests, try again shortly")


@pytest.mark.parametrize("limit", [limiter_pb2.LIMIT_SHARED_KEY, limiter_pb2.LIMIT_KEY_REQUESTS])
async def test_a_key_over_its_pace_is_told_so_in_its_format(limit: Any) -> None:
    with pytest.raises(LimitedError):
        await Door(SHARED, limiter_pb2.Refused(code="rate_limit_exceeded", limit=limit)).enter()
