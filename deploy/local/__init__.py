"""Real PostgreSQL, Valkey and Kafka on this machine, without containers and without root.
Used by `make run` (data under .kenari/) and by the tests (temporary directories).

    with PostgresServer(directory / "postgres") as postgres:
        postgres.create_databases(["ledger"])
        connect(postgres.dsn("ledger"))
"""

from deploy.local.brokers import Broker, ExternalBroker, choose_broker
from deploy.local.errors import LocalServerError, PortTaken, StartFailed, ToolMissing
from deploy.local.kafka import KafkaServer
from deploy.local.lock import AlreadyRunning, DirectoryLock
from deploy.local.ports import pick_free_port
from deploy.local.postgres import PostgresServer
from deploy.local.process import LocalServer
from deploy.local.tansu import TansuServer
from deploy.local.valkey import ValkeyServer

__all__ = [
    "AlreadyRunning",
    "Broker",
    "DirectoryLock",
    "ExternalBroker",
    "KafkaServer",
    "LocalServer",
    "LocalServerError",
    "PortTaken",
    "PostgresServer",
    "StartFailed",
    "TansuServer",
    "ToolMissing",
    "ValkeyServer",
    "choose_broker",
    "pick_free_port",
]
