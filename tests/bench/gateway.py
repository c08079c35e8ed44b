"""The gateway under measurement: every service a process of its own, on real stores, with everything on.
Called by tests.bench.run and tests.bench.comparison; the only module here that knows how the system starts.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from deploy.local import KafkaServer, PostgresServer, ValkeyServer
from tests.bench.load import BenchError
from tests.bench.seed import seed
from tests.bench.services import FREE_MODEL, PAID_MODEL, ServiceProcess, Wiring, with_database, write_catalog

_ROOT = Path(__file__).parents[2]
_DIRECTORY = _ROOT / "build" / "bench" / "gateway"
_TOOL_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running system. `base_url` has no path; `stop` ends all of it and may be called twice.

    pids_by_name: root processes of each service and store (`edge`, `ledger`, ..., `postgres`, `kafka`).
    parts: what the stores are, in words for the report.
    """

    base_url: str
    key: str
    free_model: str
    paid_model: str
    pids_by_name: Mapping[str, Sequence[int]]
    parts: Mapping[str, str]
    stop: Callable[[], None]


def start_gateway(upstream_url: str, upstream_model: str) -> Gateway:
    """Start empty stores and all services, with one rich account and limits that the load cannot reach.

    upstream_url: base URL of an OpenAI-format provider that serves `upstream_model` behind both models.
    Raises a LocalServerError or BenchError; nothing is left running then.
    """
    shutil.rmtree(_DIRECTORY, ignore_errors=True)
    print("starting PostgreSQL, Valkey, Apache Kafka and the services", flush=True)
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(_DIRECTORY / "postgres"))
        valkey = stack.enter_context(ValkeyServer(_DIRECTORY / "valkey"))
        kafka = stack.enter_context(KafkaServer(_DIRECTORY / "kafka"))
        wiring = Wiring(
            directory=_DIRECTORY,
            kafka=kafka.address,
            valkey=valkey.url,
            dsns={name: postgres.dsn(name) for name in with_database()},
            catalog=write_catalog(_DIRECTORY / "catalog.yaml", upstream_url, upstream_model),
        )
        postgres.create_databases(wiring.dsns)
        for name, dsn in wiring.dsns.items():
            _tool("libs.db.migrate", name, "--dsn", dsn)
        _tool("libs.kafka.topics", "apply", "--bootstrap", kafka.address)
        pids: dict[str, list[int]] = {}
        for process, service in wiring.processes:
            started = stack.enter_context(ServiceProcess(wiring, process, service))
            pids.setdefault(service, []).append(started.pid)
        key = seed(wiring.address("accounts"), wiring.address("ledger"))
        stores = {"postgres": [postgres.pid], "valkey": [valkey.pid], "kafka": [kafka.pid]}
        stop = stack.pop_all().close
    return Gateway(
        base_url=f"http://127.0.0.1:{wiring.http_port}",
        key=key,
        free_model=FREE_MODEL,
        paid_model=PAID_MODEL,
        pids_by_name={**pids, **stores},
        parts={"postgres": "fsync on", "valkey": "append-only file, every second", "kafka": "Apache Kafka, one node"},
        stop=stop,
    )


def _tool(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=_ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise BenchError(f"`python -m {module} {arguments[0]}` failed: {words}")
