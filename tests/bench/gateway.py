"""The gateway under measurement: every service a process of its own, on real stores, with everything on.
Called by tests.bench.run and tests.bench.comparison; the only module here that knows how the system starts.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from deploy.local import KafkaServer, PostgresServer, ValkeyServer, pick_free_port, wiring
from deploy.local.addresses import DEFAULTS, Ports
from deploy.local.services import ServiceProcess
from tests.bench.seed import ACCOUNTS, FREE_MODEL, PAID_MODEL, open_accounts, write_catalog
from tests.support.tools import run_tool

_DIRECTORY = wiring.ROOT / "build" / "bench" / "gateway"
_EDGES = 1
_OPS_OF_EDGE = "EDGE_OPS__PORT"
_SETTINGS = {
    # Apache Kafka, not the broker of `make run` that forgets.
    "KENARI_KAFKA__KEEPS_RECORDS": "true",
    "KENARI_KAFKA__FETCH_MAX_WAIT_MS": "500",
    "EDGE_HTTP__SHARE_PORT": "true",
    # As in production; a person at a laptop wants to see every request and gets all traces.
    "KENARI_TELEMETRY__TRACE_RATIO": "0.01",
    # The pacing of free requests is checked but, at 1 ms an account, delays none.
    "LIMITER_FREE__GAP_MIN_MS": "1",
}
_PARTS = {
    "edge": f"{_EDGES} processes on one port",
    "postgres": "fsync on, synchronous commit on",
    "valkey": "append-only file, written out every second",
    "kafka": "Apache Kafka, one node",
    "accounts": f"{ACCOUNTS}, in turn",
    "traces": "1 % of requests",
}


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running system. `base_url` has no path; `stop` ends all of it and may be called twice.

    keys: one for each account.
    capped_keys: of accounts with plans, limits and caps.
    pids_by_name: root processes of each service and store (`edge`, `ledger`, ..., `postgres`, `kafka`).
    parts: how it is set up, in words for the report.
    """

    base_url: str
    keys: Sequence[str]
    capped_keys: Sequence[str]
    free_model: str
    paid_model: str
    pids_by_name: Mapping[str, Sequence[int]]
    parts: Mapping[str, str]
    stop: Callable[[], None]


def start_gateway(upstream_url: str, upstream_model: str) -> Gateway:
    """Start empty stores and all services, with rich accounts and limits that the load cannot reach.

    upstream_url: base URL of an OpenAI-format provider that serves `upstream_model` behind both models.
    Raises a LocalServerError or BenchError; nothing is left running then.
    """
    shutil.rmtree(_DIRECTORY, ignore_errors=True)
    print("starting PostgreSQL, Valkey, Apache Kafka and the services", flush=True)
    ports = Ports({setting: pick_free_port() for setting in DEFAULTS})
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(_DIRECTORY / "postgres"))
        valkey = stack.enter_context(ValkeyServer(_DIRECTORY / "valkey"))
        kafka = stack.enter_context(KafkaServer(_DIRECTORY / "kafka"))
        postgres.create_databases(wiring.WITH_DATABASE)
        dsns = {name: postgres.dsn(name) for name in wiring.WITH_DATABASE}
        for name, dsn in dsns.items():
            run_tool("libs.db.migrate", name, "--dsn", dsn)
        run_tool("libs.kafka.topics", "apply", "--bootstrap", kafka.address)
        catalog = write_catalog(_DIRECTORY / "catalog.yaml", upstream_url, upstream_model)
        environment = {"ROUTER_CATALOG_FILE": str(catalog)}
        state = wiring.State(_DIRECTORY / "state")
        wired = wiring.settings(state, ports, dsns, valkey.url, kafka.address, environment) | _SETTINGS
        pids = {"postgres": [postgres.pid], "valkey": [valkey.pid], "kafka": [kafka.pid]}
        for process in _processes(state, ports, wired):
            stack.enter_context(process)
            pids.setdefault(process.what, []).append(process.pid)
        keys, capped = open_accounts(ports.rpc("accounts"), ports.rpc("ledger"))
        stop = stack.pop_all().close
    return Gateway(ports.base_url, keys, capped, FREE_MODEL, PAID_MODEL, pids, _PARTS, stop)


def _processes(state: wiring.State, ports: Ports, wired: dict[str, str]) -> Iterator[ServiceProcess]:
    for name in wiring.WITH_RPC:
        yield _process(state, name, ports, wired)
    for number in range(1, _EDGES + 1):
        # The public port is common to the edges, the ops port and the place for spooled events are not.
        own = wiring.State(state.directory / f"edge-{number}")
        port = pick_free_port()
        spool = str(own.directory / "spool")
        settings = {**wired, _OPS_OF_EDGE: str(port), "KENARI_KAFKA__SPOOL_DIR": spool}
        yield _process(own, "edge", Ports({_OPS_OF_EDGE: port}), settings)


def _process(state: wiring.State, name: str, ports: Ports, wired: dict[str, str]) -> ServiceProcess:
    state.logs.mkdir(parents=True, exist_ok=True)
    return ServiceProcess(state, name, (name,), ports, wired, report=lambda _: None, give_up=lambda: False)
