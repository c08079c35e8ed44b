"""The router as one screen: what it is made of, in the order in which it starts.

Called by services/__main__.py and by tests that run it whole.
"""

import os

from kenari.router.v1 import router_pb2_grpc

from libs.core.clock import SystemClock
from libs.db.database import Database
from libs.events.edge import AttemptFinished
from libs.events.router import UpstreamHealth
from libs.events.topics import EDGE_ATTEMPTS, ROUTER_CATALOG, ROUTER_HEALTH
from libs.kafka.bus import Bus
from libs.kafka.heartbeat import Heartbeats
from libs.kafka.outbox import OutboxRelay
from libs.ops.telemetry import Telemetry
from libs.rpc.server import RpcServer
from libs.service.component import Hook, Periodic
from libs.service.service import Service
from services.router import rpc
from services.router.catalog.load import load
from services.router.consumers import AttemptsReader, learn_into
from services.router.health import HealthBook
from services.router.keeper import CatalogKeeper
from services.router.routes import rpc as routes_rpc
from services.router.routes.latency import Latencies
from services.router.routes.rpc import RoutesServicer
from services.router.routes.service import Routes
from services.router.routes.store import RouteStore
from services.router.rpc import RouterServicer
from services.router.service import Routing
from services.router.settings import RouterSettings
from services.router.store import Store


def read_settings() -> RouterSettings:
    """The settings from the environment; raise ConfigError."""
    return RouterSettings.read()


def build(settings: RouterSettings) -> Service:
    """Assemble the router; raise CatalogError (``file:line: reason``) when the catalogue file has a mistake."""
    file = load(settings.catalog_file, os.environ)
    telemetry = Telemetry(settings.NAME, settings.telemetry)
    service = Service(settings.NAME, settings, settings.ops, telemetry)
    clock = SystemClock()

    database = service.add(Database(settings.database, telemetry))
    store = Store(database, clock)
    book = HealthBook(settings.health.rules(), clock, telemetry)
    routing = Routing(book, clock, telemetry)
    keeper = CatalogKeeper(file, store, routing, clock, telemetry, settings.discover_every_s)
    service.add(Hook(start=keeper.start))

    bus = Bus(settings.kafka, settings.NAME, telemetry)
    health = bus.table(ROUTER_HEALTH, UpstreamHealth, lambda said: said.upstream_id)
    health.on_change(learn_into(book))
    latencies = Latencies()
    reader = AttemptsReader(book, latencies, bus.producer, clock.now_ms)
    bus.batch(EDGE_ATTEMPTS, reader.handle, gather_s=0.2, types=(AttemptFinished,))
    service.add(bus)
    service.add(OutboxRelay(database, settings.kafka, telemetry))
    service.add(Heartbeats(bus, (ROUTER_CATALOG, ROUTER_HEALTH), {ROUTER_CATALOG: store.every_model_event}))
    service.add(Periodic("catalogue", 1.0, keeper.keep_up, telemetry))

    routes = Routes(RouteStore(database), routing, latencies, clock)
    service.add(Periodic("route-names", 5.0, routes.find_overlaps, telemetry))

    server = RpcServer(settings.rpc, telemetry)
    servicer = RouterServicer(routing, routes, store, telemetry)
    server.register(router_pb2_grpc.add_RouterServicer_to_server, servicer, rpc.SERVICE)
    server.register(router_pb2_grpc.add_RoutesServicer_to_server, RoutesServicer(routes), routes_rpc.SERVICE)
    service.add(server)
    return service
