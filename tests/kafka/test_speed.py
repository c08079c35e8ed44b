"""How fast records are read: a batch is many times cheaper than its records one by one, and both are fast enough.

Bounds are a tenth of what was measured, so that only a change of kind fails them on a busy machine.
"""

import time

from libs.kafka import Received
from tests.kafka.conftest import Corner, Happened, Started, event, until


async def test_batches_are_read_by_the_thousand_and_single_records_by_the_hundred(
    corner: Corner, started: Started
) -> None:
    many, few = 20_000, 500
    counted = 0
    single = 0

    async def batch(received: list[Received]) -> None:
        nonlocal counted
        counted += len(received)

    async def one(_: Received) -> None:
        nonlocal single
        single += 1

    await corner.send_many([event(n) for n in range(many)])
    await corner.send_many([event(n) for n in range(few)], topic=corner.table.name)
    bus = corner.bus()
    bus.batch(corner.topic, batch, types=[Happened])
    bus.each(corner.table, one)
    began = time.perf_counter()
    await started(bus)
    await until(lambda: counted == many and single == few, 30)
    assert time.perf_counter() - began < 15
