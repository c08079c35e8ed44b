"""The limiter as one screen: what it is made of, in the order in which it starts.

Called by services/__main__.py and by tests that run it whole.
"""

from kenari.limiter.v1 import limiter_pb2_grpc

from libs.core.clock import SystemClock
from libs.events.accounts import SettingsChanged
from libs.events.ledger import AccountState
from libs.events.topics import ACCOUNTS_SETTINGS, LEDGER_STATES
from libs.kafka.bus import Bus
from libs.ops.telemetry import Telemetry
from libs.rpc.server import RpcServer
from libs.service.component import Periodic
from libs.service.service import Service
from services.limiter.rpc import NAME, LimiterRpc
from services.limiter.service import Limiter
from services.limiter.settings import LimiterSettings
from services.limiter.store import Store
from services.limiter.tables import TableFacts


def read_settings() -> LimiterSettings:
    """Settings from the environment; raises ConfigError."""
    return LimiterSettings.read()


def build(settings: LimiterSettings) -> Service:
    """Assemble the limiter."""
    telemetry = Telemetry(settings.NAME, settings.telemetry)
    service = Service(settings.NAME, settings, settings.ops, telemetry)

    bus = service.add(Bus(settings.kafka, settings.NAME, telemetry))
    limits = bus.table(ACCOUNTS_SETTINGS, SettingsChanged, lambda data: data.account_id)
    states = bus.table(LEDGER_STATES, AccountState, lambda data: data.account_id)

    store = service.add(Store(settings.valkey, telemetry))
    limiter = Limiter(
        settings.rules(),
        settings.free.rules(),
        processes=settings.processes,
        accounts=TableFacts(limits, states),
        store=store,
        clock=SystemClock(),
        telemetry=telemetry,
    )
    service.add(Periodic("mend", settings.valkey.probe_every_ms / 1000, limiter.mend, telemetry))

    server = RpcServer(settings.rpc, telemetry)
    servicer = LimiterRpc(limiter, settings.free.rules(), telemetry)
    server.register(limiter_pb2_grpc.add_LimiterServicer_to_server, servicer, NAME)
    service.add(server)
    return service
