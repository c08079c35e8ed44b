"""Every topic as data: owner, key, partitions, how long it keeps. Applied by ``python -m libs.kafka.topics apply``.

Read by libs.kafka, by the AsyncAPI documents and by tests that compare deployment files with the code.
"""

from dataclasses import dataclass
from enum import StrEnum

_DAY_MS = 86_400_000


class Keep(StrEnum):
    """How a topic forgets."""

    TIME = "delete"
    LATEST_PER_KEY = "compact"


@dataclass(frozen=True)
class Topic:
    """One topic. Partitions are never changed in place, since keys would move: a new version takes over."""

    name: str
    owner: str
    key: str
    partitions: int
    keep: Keep
    retention_ms: int
    about: str
    # What the edge gives up when neither broker nor memory takes more: the highest first, 0 never.
    shed: int = 0


def _log(name: str, key: str, partitions: int, days: int, about: str, shed: int = 0) -> Topic:
    return Topic(name, name.split(".")[0], key, partitions, Keep.TIME, days * _DAY_MS, about, shed)


def _table(name: str, key: str, about: str) -> Topic:
    # One partition: every reader reads all of it, in one total order, and one heartbeat proves its age.
    return Topic(name, name.split(".")[0], key, 1, Keep.LATEST_PER_KEY, -1, about)


def dead_topic(service: str) -> Topic:
    """Where a service's consumers put what they cannot handle."""
    return _log(f"{service}.dead.v1", "original key", 1, 90, f"records that {service} could not handle")


def retry_topic(service: str) -> Topic:
    """Where the replay command puts dead letters for another try; it keeps who did it, and when."""
    return _log(f"{service}.retry.v1", "original key", 1, 90, f"dead letters that {service} tries again")


EDGE_REQUESTS = _log("edge.requests.v1", "account", 12, 7, "every finished request, for analytics", shed=1)
EDGE_ATTEMPTS = _log("edge.attempts.v1", "upstream", 3, 3, "every try at a provider, for its health", shed=2)
EDGE_USAGE = _log("edge.usage.v1", "account", 12, 14, "what is to be settled; the redo log of charges")
LEDGER_ENTRIES = _log("ledger.entries.v1", "account", 12, 30, "every change of money, after it happened")
LEDGER_STATES = _table("ledger.states.v1", "account", "what limits and hints need to know of an account's money")
ACCOUNTS_KEYS = _table("accounts.keys.v1", "key id", "keys by keyed hash, with their account's status")
ACCOUNTS_SETTINGS = _table("accounts.settings.v1", "account", "limits set on an account")
ROUTER_CATALOG = _table("router.catalog.v1", "model", "models for sale, with limits and price version")
ROUTER_HEALTH = _table("router.health.v1", "upstream", "which upstreams are paused, and until when")

SERVICES = ("accounts", "edge", "ledger", "limiter", "router")
DEAD = {name: dead_topic(name) for name in SERVICES}
RETRY = {name: retry_topic(name) for name in SERVICES}

ALL: tuple[Topic, ...] = (
    EDGE_REQUESTS,
    EDGE_ATTEMPTS,
    EDGE_USAGE,
    LEDGER_ENTRIES,
    LEDGER_STATES,
    ACCOUNTS_KEYS,
    ACCOUNTS_SETTINGS,
    ROUTER_CATALOG,
    ROUTER_HEALTH,
    *DEAD.values(),
    *RETRY.values(),
)
