"""The ledger as one screen: what it is made of, in the order in which it starts.

Called by services/__main__.py and by tests that run it whole.
"""

from kenari.ledger.v1 import funding_pb2_grpc, idempotency_pb2_grpc, ledger_pb2_grpc

from libs.core.clock import SystemClock
from libs.db.database import Database
from libs.events.edge import UsageRecorded
from libs.events.router import ModelPublished
from libs.events.topics import EDGE_USAGE, LEDGER_STATES, ROUTER_CATALOG
from libs.kafka.bus import Bus
from libs.kafka.heartbeat import Heartbeats
from libs.kafka.outbox import OutboxRelay
from libs.ops.telemetry import Telemetry
from libs.rpc.client import RpcClient
from libs.rpc.server import RpcServer
from libs.service.component import Periodic
from libs.service.service import Service
from services.ledger import funding_rpc, idempotency_rpc
from services.ledger.clients import RouterPrices
from services.ledger.consumers import UsageReader
from services.ledger.funding_rpc import FundingRpc
from services.ledger.idempotency import Idempotency
from services.ledger.idempotency_rpc import IdempotencyRpc
from services.ledger.jobs import Jobs, Renewals
from services.ledger.prices import Prices
from services.ledger.reads import Reads
from services.ledger.rollup import Rollup
from services.ledger.rpc import NAME, LedgerRpc
from services.ledger.service import Ledger
from services.ledger.settings import LedgerSettings
from services.ledger.store import Store
from services.ledger.subscriptions import Subscriptions


def read_settings() -> LedgerSettings:
    """The environment's settings; raise ConfigError."""
    return LedgerSettings.read()


def build(settings: LedgerSettings) -> Service:
    """Assemble the ledger."""
    telemetry = Telemetry(settings.NAME, settings.telemetry)
    service = Service(settings.NAME, settings, settings.ops, telemetry)
    clock = SystemClock()

    database = service.add(Database(settings.database, telemetry, statement_ms=2_000, lock_ms=500))
    store = Store(database, clock)
    router = service.add(RpcClient(settings.router_address, telemetry, deadline_s=0.5))
    prices = Prices(store, RouterPrices(router), telemetry)
    ledger = service.add(Ledger(database, store, prices, settings, telemetry))

    bus = Bus(settings.kafka, settings.NAME, telemetry)
    bus.table(ROUTER_CATALOG, ModelPublished, lambda model: model.id).on_change(prices.heard)
    # Almost all of it is settled already, by RPC: there is no hurry.
    bus.batch(EDGE_USAGE, UsageReader(ledger, telemetry).handle, gather_s=0.5, types=(UsageRecorded,))
    service.add(bus)
    service.add(OutboxRelay(database, settings.kafka, telemetry, mode="watermark"))
    service.add(Heartbeats(bus, (LEDGER_STATES,), {LEDGER_STATES: store.states}))

    jobs = Jobs(store, database, settings.keep, clock, telemetry)
    service.add(Periodic("tend-days", settings.partitions_every_s, jobs.tend_days, telemetry))
    service.add(Periodic("sweep", settings.sweep_every_s, jobs.sweep, telemetry))
    renewals = Renewals(Subscriptions(database, clock))
    service.add(Periodic("renew", settings.renew_every_s, renewals.run, telemetry))
    service.add(Periodic("roll-up", settings.rollup_every_s, Rollup(database, telemetry).run, telemetry))
    service.add(Periodic("measure", settings.measure_every_s, jobs.measure, telemetry))
    service.add(Periodic("check-quick", settings.reconcile_every_s, jobs.check_quick, telemetry))

    idempotency = Idempotency(database, settings.idempotency)
    every_s = settings.idempotency.forget_every_s
    service.add(Periodic("forget-idempotency", every_s, idempotency.forget, telemetry))

    server = RpcServer(settings.rpc, telemetry)
    add_idempotency = idempotency_pb2_grpc.add_IdempotencyServicer_to_server
    server.register(add_idempotency, IdempotencyRpc(idempotency), idempotency_rpc.NAME)
    server.register(
        ledger_pb2_grpc.add_LedgerServicer_to_server,
        LedgerRpc(ledger, Reads(database), telemetry),
        NAME,
    )
    funds = FundingRpc(ledger, database, clock)
    server.register(funding_pb2_grpc.add_FundsServicer_to_server, funds, funding_rpc.NAME)
    service.add(server)
    return service
