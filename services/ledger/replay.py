"""Settles a ledger database that was restored to an earlier moment, from the events on the bus: ``make replay``.

Run by operators after a restore, with the ledger stopped or running. What the books know already changes nothing, so it
may be run again. ``--checksum`` prints one figure over all that replay brings back, to compare two databases by.
"""

import argparse
import asyncio
import hashlib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from libs.core.clock import SystemClock
from libs.core.errors import ConfigError, KenariError
from libs.core.money import Micros
from libs.db.database import Database
from libs.events.edge import UsageRecorded
from libs.events.ledger import Credited
from libs.events.topics import EDGE_USAGE, LEDGER_ENTRIES
from libs.kafka.reading import read_to_end
from libs.kafka.records import Received
from libs.ops.telemetry import Telemetry
from libs.rpc.client import RpcClient
from services.ledger.clients import RouterPrices
from services.ledger.consumers import UsageReader
from services.ledger.domain.calls import Credit
from services.ledger.prices import Prices
from services.ledger.service import Ledger
from services.ledger.settings import LedgerSettings
from services.ledger.store import Store

_AT_ONCE = 200

# Everything that usage and credits leave behind, but for moments and for refs that a repeated credit has anew.
_STATE = (
    "select account_id, paid, bonus, payg_cum, paid_in_total from wallet order by 1",
    "select request_id, line, account_id, key_id, model, vendor, endpoint, billing_kind, outcome, prompt_tokens,"
    " completion_tokens, cached_tokens, cache_write_tokens, cost, catalog, cache_saved, units, member_id, settle_hash"
    " from usage_row order by 1, 2",
    "select request_id, line, seq, account_id, debit, credit, amount from transfer where kind = 'usage'"
    " order by 1, 2, 3",
    "select account_id, kind, amount, count(*) from transfer where kind in ('top_up', 'bonus') group by 1, 2, 3"
    " order by 1, 2, 3",
    "select account_id, cycle, kind, idx, used from plan_window where used > 0 order by 1, 2, 3, 4",
    "select coupon_id, used from coupon order by 1",
    "select alloc_id, used from token_alloc order by 1",
    "select key_id, epoch, starts, spent, tokens from key_spend where spent > 0 or tokens > 0 order by 1, 2, 3",
    "select account_id, member_id, cum from member_spend where cum > 0 order by 1, 2",
    "select account_id, day, used from search_allowance where used > 0 order by 1, 2",
)


async def replay(settings: LedgerSettings, since_ms: int) -> tuple[int, int]:
    """Settle and credit what was written to the bus since then; return how many usage events and credits were read.

    Raises Transient when database or broker do not answer, or a price version is nowhere to be found.
    """
    telemetry = Telemetry("ledger-replay", settings.telemetry)
    database = Database(settings.database, telemetry, statement_ms=2_000, lock_ms=500)
    router = RpcClient(settings.router_address, telemetry, deadline_s=2.0)
    store = Store(database, SystemClock())
    ledger = Ledger(database, store, Prices(store, RouterPrices(router), telemetry), settings, telemetry)
    await database.start()
    await ledger.start()
    try:
        # Money first: a balance below zero on the way would change nothing, but would look like a fault.
        credits = await _credits(settings, ledger, since_ms)
        return await _usage(settings, UsageReader(ledger, telemetry), since_ms), credits
    finally:
        await ledger.stop()
        await router.stop()
        await database.stop()


async def _usage(settings: LedgerSettings, reader: UsageReader, since_ms: int) -> int:
    count, waiting = 0, list[Received]()
    async for received in read_to_end(settings.kafka, [EDGE_USAGE], since_ms):
        if received.event_type == UsageRecorded.TYPE:
            waiting.append(received)
        if len(waiting) >= _AT_ONCE:
            await reader.handle(waiting)
            count, waiting = count + len(waiting), []
    await reader.handle(waiting)
    return count + len(waiting)


async def _credits(settings: LedgerSettings, ledger: Ledger, since_ms: int) -> int:
    count = 0
    async for received in read_to_end(settings.kafka, [LEDGER_ENTRIES], since_ms):
        if received.event_type != Credited.TYPE:
            continue
        said = received.data(Credited)
        if said.idempotency_key:
            amount = Micros(said.amount_micro_idr)
            await ledger.credit(Credit(said.account_id, amount, said.idempotency_key, said.kind, "replayed"))
            count += 1
    return count


async def checksum(settings: LedgerSettings) -> str:
    """One figure over all that replay brings back."""
    database = Database(settings.database, Telemetry("ledger-replay", settings.telemetry), statement_ms=600_000)
    await database.start()
    total = hashlib.sha256()
    try:
        async with database.transaction(isolation="repeatable_read", readonly=True) as conn:
            for query in _STATE:
                async for row in conn.cursor(query):
                    total.update(repr(tuple(row)).encode())
    finally:
        await database.stop()
    return total.hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 2 when database or broker cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m services.ledger.replay", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--since", type=datetime.fromisoformat, help="moment of the restored copy, UTC if no zone is given"
    )
    what.add_argument("--checksum", action="store_true", help="print the figure and change nothing")
    options = parser.parse_args(arguments)
    try:
        settings = LedgerSettings.read()
        if options.checksum:
            print(asyncio.run(checksum(settings)))
            return 0
        since: datetime = options.since if options.since.tzinfo else options.since.replace(tzinfo=UTC)
        if since > datetime.now(UTC):
            raise ConfigError("the moment of the copy lies in the future")
        usage, credited = asyncio.run(replay(settings, int(since.timestamp() * 1000)))
        print(f"{usage} usage events and {credited} credits read; the books have them all")
    except KenariError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
