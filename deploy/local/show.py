"""`make show ID=...`: everything the running system knows of one request: money, events, trace.
Called as `python -m deploy.local.show X-REQUEST-ID` beside `make run`.
"""

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from deploy.local import trace_tree, wiring
from deploy.local.errors import LocalServerError
from deploy.local.wiring import DEFAULT_STATE, State
from libs.core.errors import KenariError
from libs.core.ids import uuid7_unix_ms
from libs.core.money import PER_RUPIAH
from libs.core.settings import KafkaSettings, TelemetrySettings
from libs.events import topics
from libs.kafka.reading import read_to_end
from libs.kafka.records import Received
from libs.ops.telemetry import Telemetry
from libs.rpc.client import RpcClient

EVENT_TOPICS = (topics.EDGE_ATTEMPTS, topics.EDGE_REQUESTS, topics.EDGE_USAGE, topics.LEDGER_ENTRIES)
_ID = re.compile(r"[0-9a-f]{32}")
_DEADLINE_S = 5.0
# The edge's clock made the id, the broker's or a producer's clock the record's time.
_CLOCK_SLACK_MS = 5_000


class UnknownRequest(LocalServerError):
    """Neither money nor events nor spans of this request are known."""

    reason = "unknown_request"


async def report(wired: Mapping[str, str], state: State, request_id: str) -> list[str]:
    """The whole report, line by line. Raises UnknownRequest, or Transient when the ledger or the broker is away."""
    books, events = await asyncio.gather(_books(wired, request_id), _events(wired, request_id))
    old = state.traces.with_name(f"{state.traces.name}.old")
    spans = trace_tree.render(trace_tree.read_trace((old, state.traces), request_id))
    if not (books.holds or books.usage or books.transfers or events or spans):
        raise UnknownRequest(f"nothing is known of request {request_id}; traces come within a second of the answer")
    return [
        f"Request {request_id}",
        *_section("Hold", _holds(books), "none: free, refused, or never admitted"),
        *_section("Usage row", _usage(books), "none yet, or nothing was used"),
        *_section("Transfers", _transfers(books), "none: no money moved"),
        *_section("Kafka events", events, "none (the embedded broker forgets them when it stops)"),
        *_section("Trace", spans, "none (yet: spans are written within a second)"),
    ]


async def _books(wired: Mapping[str, str], request_id: str) -> ledger_pb2.GetRequestResponse:
    client = RpcClient(wired["KENARI_LEDGER_ADDRESS"], Telemetry("show", TelemetrySettings()), deadline_s=_DEADLINE_S)
    try:
        stub = ledger_pb2_grpc.LedgerStub(client.channel)
        request = ledger_pb2.GetRequestRequest(request_id=request_id)
        return await client.call("ledger.GetRequest", stub.GetRequest, request, retry=True)
    finally:
        await client.stop()


async def _events(wired: Mapping[str, str], request_id: str) -> list[str]:
    kafka = KafkaSettings(bootstrap=wired["KENARI_KAFKA__BOOTSTRAP"])
    since = uuid7_unix_ms(request_id) - _CLOCK_SLACK_MS
    found = [
        received
        async for received in read_to_end(kafka, EVENT_TOPICS, since)
        if received.envelope.data.get("request_id") == request_id
    ]
    found.sort(key=lambda received: received.envelope.time)
    return [line for received in found for line in _event(received)]


def _event(received: Received) -> Iterator[str]:
    event = received.envelope
    yield f"{event.time}  {event.type}  ({received.topic}, partition {received.partition}, offset {received.offset})"
    # The descriptor is the ledger's signed note to itself, long and unreadable.
    hidden = ("request_id", "descriptor")
    shown = {name: value for name, value in event.data.items() if name not in hidden and value is not None}
    yield "    " + "  ".join(f"{name}={value}" for name, value in shown.items())


def _holds(books: ledger_pb2.GetRequestResponse) -> list[str]:
    return [
        f"{_time(hold.created_at_ms)}  {hold.state}  reserved {_rupiah(hold.amount_micro_idr)}, "
        f"charged {_rupiah(hold.cost_micro_idr)}, for up to {hold.max_tokens} tokens at price {hold.price_version}, "
        f"until {_time(hold.expires_at_ms)}"
        for hold in books.holds
    ]


def _usage(books: ledger_pb2.GetRequestResponse) -> list[str]:
    return [
        f"{_time(row.created_at * 1000)}  {row.model} ({row.vendor}) {row.endpoint}, {row.billing_kind}: "
        f"{row.prompt_tokens} prompt + {row.completion_tokens} completion tokens = {_rupiah(row.cost_micro_idr)}"
        for row in books.usage
    ]


def _transfers(books: ledger_pb2.GetRequestResponse) -> list[str]:
    return [
        f"{_time(row.booked_at_ms)}  {row.kind}  {row.debit} -> {row.credit}  {_rupiah(row.amount_micro_idr)}"
        for row in books.transfers
    ]


def _section(title: str, lines: Sequence[str], nothing: str) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines or [nothing])]


def _rupiah(micros: int) -> str:
    sign, whole, rest = "-" if micros < 0 else "", abs(micros) // PER_RUPIAH, abs(micros) % PER_RUPIAH
    return f"{sign}Rp {whole:,}" + (f".{rest:06d}".rstrip("0") if rest else "")


def _time(unix_ms: int) -> str:
    moment = datetime.fromtimestamp(unix_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{unix_ms % 1000:03d}Z"


def _is_request_id(text: str) -> bool:
    if not _ID.fullmatch(text):
        return False
    try:
        uuid7_unix_ms(text)
    except ValueError:
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 0, or 1 with one line when it cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.show", description=__doc__)
    parser.add_argument("request_id", nargs="?", default="", help="the x-request-id header of an answer")
    parser.add_argument("--directory", type=Path, default=DEFAULT_STATE, help="where the run keeps its data")
    options = parser.parse_args(arguments)
    request_id = options.request_id.replace("-", "").lower()
    if not _is_request_id(request_id):
        print("kenari: say which request: make show ID=<the x-request-id header of an answer>", file=sys.stderr)
        return 1
    state = State(options.directory)
    try:
        lines = asyncio.run(report(wiring.load(state), state, request_id))
    except UnknownRequest as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 1
    except (LocalServerError, KenariError) as error:
        print(f"kenari: {error}; is `make run` running?", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
