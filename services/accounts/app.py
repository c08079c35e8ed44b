"""Accounts as one screen: what it is made of, in the order in which it starts.

Called by services/__main__.py and by tests that run it whole.
"""

from kenari.accounts.v1 import accounts_pb2_grpc

from libs.core.clock import SystemClock
from libs.db.database import Database
from libs.events.topics import ACCOUNTS_KEYS, ACCOUNTS_SETTINGS
from libs.kafka.bus import Bus
from libs.kafka.heartbeat import Heartbeats
from libs.kafka.outbox import OutboxRelay
from libs.ops.telemetry import Telemetry
from libs.rpc.server import RpcServer
from libs.service.component import Hook
from libs.service.service import Service
from services.accounts.key_store import KeyStore
from services.accounts.people import People
from services.accounts.rpc import NAME, AccountsRpc
from services.accounts.service import Accounts
from services.accounts.settings import AccountsSettings
from services.accounts.store import Store
from services.accounts.tool_keys import ToolKeys
from services.accounts.watch import KeyWatch


def read_settings() -> AccountsSettings:
    """Settings from the environment; raises ConfigError."""
    return AccountsSettings.read()


def build(settings: AccountsSettings) -> Service:
    """Assemble accounts."""
    telemetry = Telemetry(settings.NAME, settings.telemetry)
    service = Service(settings.NAME, settings, settings.ops, telemetry)
    clock = SystemClock()

    database = service.add(Database(settings.database, telemetry))
    watch = service.add(
        KeyWatch(database, telemetry, replay_s=settings.watch_replay_s, heartbeat_s=settings.watch_heartbeat_s)
    )
    secret = settings.key_hash_secret.get_secret_value().encode()
    store = Store(database, clock)
    tool_keys = ToolKeys(database, clock)
    key_store = KeyStore(database, clock)
    accounts = Accounts(
        store, key_store, tool_keys, watch.tell_now, secret, clock, telemetry, key_limit=settings.key_limit
    )
    people = People(database, watch.tell_now, clock, telemetry)

    bus = service.add(Bus(settings.kafka, settings.NAME, telemetry))
    service.add(OutboxRelay(database, settings.kafka, telemetry))
    tables = {ACCOUNTS_KEYS: store.every_key_event, ACCOUNTS_SETTINGS: store.every_settings_event}
    service.add(Heartbeats(bus, tuple(tables), tables))

    server = RpcServer(settings.rpc, telemetry)
    server.register(
        accounts_pb2_grpc.add_AccountsServicer_to_server,
        AccountsRpc(accounts, people, watch),
        NAME,
    )
    service.add(server)
    # Watches never end by themselves, and the server waits for its calls.
    service.add(Hook(stop=watch.end_all))
    return service
