"""The services as production runs them, one process each and two edges on one port, and what they are told.
Called by tests.bench.gateway.
"""

import http.client
import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local import pick_free_port
from tests.bench.servers import HttpServer

_ROOT = Path(__file__).parents[2]
EDGE = "edge"
# Askers after those they ask.
_PEERS = ("accounts", "router", "limiter", "ledger")
_EDGES = 2
PAID_MODEL = "bench"
FREE_MODEL = "bench:free"
_NO_LIMIT = 1_000_000_000


def with_database() -> list[str]:
    """Services that keep a database of their own: those with migrations."""
    return [name for name in _PEERS if (_ROOT / "services" / name / "migrations").is_dir()]


def write_catalog(file: Path, provider_url: str, provider_model: str) -> Path:
    """Write a catalogue with one provider and the two models of the bench, and return where."""
    provider = {"id": "mock", "format": "openai_chat", "base_url": provider_url}
    served_by = [{"provider": "mock", "upstream_model": provider_model}]
    common = {"vendor": "bench", "context_length": 131072, "max_output_tokens": 8192, "served_by": served_by}
    paid = {"id": PAID_MODEL, **common, "rupiah_per_1m_tokens": {"input": 4200, "output": 24000}}
    free = {"id": FREE_MODEL, **common, "free": True, "free_rpm": _NO_LIMIT, "free_daily": _NO_LIMIT}
    # JSON is YAML.
    file.write_text(json.dumps({"providers": [provider], "models": [paid, free]}, indent=2))
    return file


@dataclass(frozen=True)
class Wiring:
    """Where everything is: ports of the services, addresses of the stores, the secret they share."""

    directory: Path
    kafka: str
    valkey: str
    dsns: Mapping[str, str]
    catalog: Path
    http_port: int = field(default_factory=pick_free_port)
    rpc_ports: Mapping[str, int] = field(default_factory=lambda: {name: pick_free_port() for name in _PEERS})
    key_hash_secret: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def processes(self) -> list[tuple[str, str]]:
        """Process name and service of every process, in the order of their start."""
        return [*((name, name) for name in _PEERS), *((f"{EDGE}-{n}", EDGE) for n in range(1, _EDGES + 1))]

    def address(self, service: str) -> str:
        """Where a service answers gRPC."""
        return f"127.0.0.1:{self.rpc_ports[service]}"

    def environment(self, service: str, ops_port: int) -> dict[str, str]:
        """All settings of one process. What is not set here is as in production."""
        shared = {
            "KENARI_KAFKA__BOOTSTRAP": self.kafka,
            "KENARI_KEY_HASH_SECRET": self.key_hash_secret,
            "KENARI_VALKEY_URL": f"{self.valkey}0",
            "KENARI_CATALOG_FILE": str(self.catalog),
            "KENARI_TELEMETRY__TRACE_RATIO": "0.01",
            "KENARI_OPS__PORT": str(ops_port),
            **{f"KENARI_{name.upper()}_ADDRESS": self.address(name) for name in _PEERS},
        }
        if service == EDGE:
            return {**shared, "EDGE_HTTP__PORT": str(self.http_port), "EDGE_HTTP__SHARE_PORT": "true"}
        shared["KENARI_RPC__PORT"] = str(self.rpc_ports[service])
        if service in self.dsns:
            shared["KENARI_DATABASE__DSN"] = self.dsns[service]
        return shared


class ServiceProcess(HttpServer):
    """One process of a service, started once it says it is ready. Its own port is that of /ready."""

    name = "the gateway's service"

    def __init__(self, wiring: Wiring, process: str, service: str) -> None:
        super().__init__(wiring.directory / process)
        self.service = service
        self._settings = wiring.environment(service, self.port)

    def _command(self) -> Sequence[str]:
        return [sys.executable, "-m", "services", self.service]

    def _environment(self) -> dict[str, str]:
        # The directory of the process is its own, and so is what it spools there.
        return {**os.environ, "PYTHONPATH": str(_ROOT), **self._settings}

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
