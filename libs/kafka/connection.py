"""A producing client that connects in the background, for ever, and is replaced when it breaks.

Used by publisher.py (confirmed sends) and producer.py (the edge's stream of events).
"""

import asyncio
import logging

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError

from libs.core.retry import backoff
from libs.core.settings import KafkaSettings
from libs.kafka.tasks import end, within

log = logging.getLogger("kenari.kafka")

# Above the broker's own limit for one record, so that the broker's answer decides.
_MAX_REQUEST = 8 * 1024 * 1024
_CLOSE_S = 1.0


class Connection:
    """``client`` is None until the broker was reached once, and again after an error that broke it.

    A broker that merely goes away leaves the client as it is: it reconnects by itself. ``confirm_s`` is after how
    long the client gives up on a batch.
    """

    def __init__(self, settings: KafkaSettings, *, confirm_s: float, batch_bytes: int) -> None:
        self._settings = settings
        self._confirm_s = confirm_s
        self._batch_bytes = batch_bytes
        self._connecting: asyncio.Task[None] | None = None
        self.client: AIOKafkaProducer | None = None
        self.connected = asyncio.Event()

    async def start(self) -> None:
        """Begin to connect; returns at once, also when the broker is away."""
        self._connecting = asyncio.create_task(self._connect(), name="kafka-connect")

    async def stop(self) -> None:
        """Close; what the client still holds is given up after a second."""
        await end(self._connecting)
        if self.client is not None:
            client, self.client = self.client, None
            await _close(client)

    def problem(self) -> str | None:
        return None if self.client is not None else f"not connected to Kafka at {self._settings.bootstrap}"

    def failed(self, error: BaseException) -> None:
        """Note that a send failed: a client that lost its sequence or its rights stays broken and is replaced."""
        passing = isinstance(error, KafkaTimeoutError | MessageSizeTooLargeError)
        if self.client is not None and isinstance(error, KafkaError) and not error.retriable and not passing:
            log.error("producer is replaced", extra={"reason": type(error).__name__})
            broken, self.client = self.client, None
            self._connecting = asyncio.create_task(self._replace(broken), name="kafka-connect")

    async def _replace(self, broken: AIOKafkaProducer) -> None:
        await _close(broken)
        await self._connect()

    async def _connect(self) -> None:
        for wait_s in backoff(0.2, 2.0):
            client = AIOKafkaProducer(
                bootstrap_servers=self._settings.bootstrap,
                acks="all",
                enable_idempotence=self._settings.idempotence,
                request_timeout_ms=int(self._confirm_s * 1000),
                max_batch_size=self._batch_bytes,
                max_request_size=_MAX_REQUEST,
                metadata_max_age_ms=60_000,
            )
            try:
                await client.start()
            except (KafkaError, OSError) as error:
                log.warning("broker is away", extra={"reason": str(error)})
                await _close(client)
                await asyncio.sleep(wait_s)
            except BaseException:
                await _close(client)
                raise
            else:
                self.client = client
                self.connected.set()
                return


async def _close(client: AIOKafkaProducer) -> None:
    await within(_CLOSE_S, client.stop())
