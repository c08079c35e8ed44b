"""A consumer as a process of its own, for tests that kill it: ``python -m tests.kafka.worker BOOTSTRAP SERVICE DSN``.

Started by test_process.py. For each event it writes a naive effect, and one behind the inbox; the event's number
says how long it then takes, in tenths of a second.
"""

import asyncio
import signal
import sys

import asyncpg

from libs.core.settings import KafkaSettings, TelemetrySettings
from libs.events.topics import Keep, Topic
from libs.kafka import Bus, Inbox, Received
from libs.ops.telemetry import Telemetry


async def main(bootstrap: str, service: str, dsn: str) -> None:
    topic = Topic(f"{service}.things.v1", service, "key", 3, Keep.TIME, 3_600_000, "of a test")
    conn = await asyncpg.connect(dsn)
    inbox = Inbox(service)

    async def handler(received: Received) -> None:
        number = int(received.envelope.data["number"])
        async with conn.transaction():
            await conn.execute("insert into naive values ($1)", number)
            if await inbox.first_time(conn, received):
                await conn.execute("insert into effect values ($1)", number)
        print(f"effect {number}", flush=True)
        await asyncio.sleep(number / 10)
        print(f"end {number}", flush=True)

    bus = Bus(
        KafkaSettings(bootstrap=bootstrap, session_timeout_ms=2_000), service, Telemetry(service, TelemetrySettings())
    )
    bus.each(topic, handler)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await bus.start()
    await stop.wait()
    await bus.stop()
    await conn.close()
    print("stopped", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
