"""Every port of `make run`: its setting, its default, and the refusal of a value that is no port.
Called by the launcher and its wiring; the services' defaults are the same (a test compares them).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deploy.local.errors import LocalServerError
from deploy.local.ports import LOOPBACK

POSTGRES, VALKEY, KAFKA = "POSTGRES_PORT", "VALKEY_PORT", "KAFKA_PORT"
HTTP = "EDGE_HTTP__PORT"

# Not the stores' usual ports: a newcomer may well have a database running.
DEFAULTS: Mapping[str, int] = {
    HTTP: 8080,
    "ACCOUNTS_RPC__PORT": 7101,
    "ROUTER_RPC__PORT": 7102,
    "LIMITER_RPC__PORT": 7103,
    "LEDGER_RPC__PORT": 7104,
    "EDGE_OPS__PORT": 7200,
    "ACCOUNTS_OPS__PORT": 7201,
    "ROUTER_OPS__PORT": 7202,
    "LIMITER_OPS__PORT": 7203,
    "LEDGER_OPS__PORT": 7204,
    POSTGRES: 7432,
    VALKEY: 7379,
    KAFKA: 7092,
}


class WrongPort(LocalServerError):
    """A port setting holds something else, or two hold the same."""

    reason = "wrong_port"


@dataclass(frozen=True)
class Ports:
    """The ports of one run by the name of their setting."""

    by_setting: Mapping[str, int]

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Ports":
        """Defaults with what the environment sets; raise WrongPort for a value that cannot be used."""
        chosen: dict[str, int] = {}
        for setting, default in DEFAULTS.items():
            text = environment.get(setting) or str(default)
            if not text.isdecimal() or not 0 < int(text) < 65536:
                raise WrongPort(f"{setting}={text} is not a port; set it to a number from 1 to 65535")
            for other, port in chosen.items():
                if port == int(text):
                    raise WrongPort(f"{setting} and {other} are both {port}; set one of them to another port")
            chosen[setting] = int(text)
        return cls(chosen)

    def __getitem__(self, setting: str) -> int:
        return self.by_setting[setting]

    def of_service(self, service: str) -> dict[str, int]:
        """All settings and ports of one service."""
        prefix = f"{service.upper()}_"
        return {setting: port for setting, port in self.by_setting.items() if setting.startswith(prefix)}

    def rpc(self, service: str) -> str:
        """Where a service answers gRPC, as `host:port`."""
        return f"{LOOPBACK}:{self[f'{service.upper()}_RPC__PORT']}"

    def ops(self, service: str) -> str:
        """Where a service answers /ready and /metrics, as `host:port`."""
        return f"{LOOPBACK}:{self[f'{service.upper()}_OPS__PORT']}"

    @property
    def base_url(self) -> str:
        """What clients are given as base URL, without `/v1`."""
        return f"http://{LOOPBACK}:{self[HTTP]}"
