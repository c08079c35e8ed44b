"""The sure way of settlement: usage events of the edge, most of which only confirm what a call has done.

Registered by app.py on edge.usage.v1. Anything may come twice, late, or in another order.
"""

from collections.abc import Sequence

from libs.events.edge import UsageRecorded
from libs.kafka.records import Received
from libs.ops.telemetry import Telemetry
from services.ledger.domain.calls import Settle
from services.ledger.service import Ledger
from services.ledger.telemetry import USAGE_EVENTS


class UsageReader:
    """Settles what the events say and the books do not."""

    def __init__(self, ledger: Ledger, telemetry: Telemetry) -> None:
        self._ledger = ledger
        counted = telemetry.metrics.counter(USAGE_EVENTS)
        self._new = counted.labels("settled")
        self._known = counted.labels("known")

    async def handle(self, received: Sequence[Received]) -> None:
        """Take a batch in. Raises Transient when the books are away, Permanent for an event that cannot be true."""
        calls = []
        for one in received:
            call = _settle(one.data(UsageRecorded))
            call.check()
            calls.append((call, one.trace))
        new, known = await self._ledger.settle_all(calls)
        self._new.inc(new)
        self._known.inc(known)


def _settle(said: UsageRecorded) -> Settle:
    return Settle(
        said.request_id,
        said.line,
        said.account_id,
        said.key_id,
        said.endpoint,
        said.model,
        said.vendor,
        said.price_version,
        said.billing_kind,
        said.outcome,
        said.prompt_tokens,
        said.completion_tokens,
        said.cached_tokens,
        said.cache_write_tokens,
        said.estimated,
        said.descriptor,
        said.started_at_ms,
        said.units,
    )
