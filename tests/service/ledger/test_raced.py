"""The same books from many connections at once, and the decision against the rule in plain integers."""

import asyncio

from services.ledger.domain.calls import Denied
from tests.service.ledger.conftest import opened, reserve, settle
from tests.support.stack import Postgres

HOLD = 4_200_000


async def test_of_64_connections_at_once_exactly_ten_get_the_room_for_ten(
    postgres: Postgres, dsn: str, account: str
) -> None:
    async with opened(postgres, dsn) as books:
        await books.credit(account, 10 * HOLD)
        others = [opened(postgres, books.dsn, queue={"shards": 1}) for _ in range(16)]
        ledgers = [await other.__aenter__() for other in others]
        try:
            answers = await asyncio.gather(*(ledger.reserve(reserve(account)) for ledger in ledgers for _ in range(4)))
        finally:
            for other in others:
                await other.__aexit__(None, None, None)

        assert sum(not isinstance(answer, Denied) for answer in answers) == 10
        assert await books.count("hold") == 10
        await books.assert_sound()


async def test_one_id_from_many_processes_makes_one_hold_and_one_charge(
    postgres: Postgres, dsn: str, account: str
) -> None:
    async with opened(postgres, dsn) as books:
        await books.credit(account, 10 * HOLD)
        others = [opened(postgres, books.dsn, queue={"shards": 1}) for _ in range(16)]
        ledgers = [await other.__aenter__() for other in others]
        call = reserve(account)
        try:
            holds = await asyncio.gather(
                *(ledger.granted(call) for ledger in ledgers for _ in range(4)), return_exceptions=True
            )
            granted = [hold for hold in holds if not isinstance(hold, BaseException)]
            settled = await asyncio.gather(
                *(ledger.settle(settle(call, granted[0].descriptor)) for ledger in ledgers for _ in range(4))
            )
        finally:
            for other in others:
                await other.__aexit__(None, None, None)

        # Of calls that meet in one queue the later takes the place of the earlier.
        assert len(granted) >= 16
        assert {hold.descriptor for hold in granted} == {granted[0].descriptor}
        assert await books.count("hold") == 1
        assert await books.count("transfer where kind = 'usage'") == 1
        assert sum(not answer.duplicate for answer in settled) == 1
        await books.assert_sound()
