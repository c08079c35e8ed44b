"""What the services of `make run` are told: addresses of stores and peers, secrets, places for logs and traces.
Called by the launcher; `make show` and the like read the same settings back from the file of the last run.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.addresses import Ports
from deploy.local.errors import LocalServerError
from deploy.local.secret_files import secret_once, write_private

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_STATE = ROOT / ".kenari"
WITH_RPC = ("accounts", "router", "limiter", "ledger")
WITH_DATABASE = ("accounts", "router", "ledger")

_CATALOG = "ROUTER_CATALOG_FILE"


class NotStarted(LocalServerError):
    """There was no `make run` in this checkout yet."""

    reason = "not_started"


@dataclass(frozen=True)
class State:
    """Where a run keeps its things."""

    directory: Path

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def traces(self) -> Path:
        return self.directory / "traces.jsonl"

    @property
    def demo_key(self) -> Path:
        return self.directory / "demo-key"

    @property
    def settings(self) -> Path:
        """The settings of the last run, for commands that work beside it."""
        return self.directory / "settings.json"

    def secret(self, name: str) -> str:
        """A secret of this installation, made once."""
        return secret_once(self.directory / "secrets" / name)


def settings(
    state: State, ports: Ports, dsns: Mapping[str, str], valkey_url: str, kafka: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """All variables that the services need beside the caller's own `environment`.

    dsns: database URL by service. kafka: bootstrap address. Ports come from `ports` alone, so that peers agree.
    """
    wired = {
        "KENARI_KAFKA__BOOTSTRAP": kafka,
        "KENARI_KAFKA__SPOOL_DIR": str(state.directory / "spool"),
        # Tansu forgets everything when it stops, and notices a record only after half of a fetch's wait.
        "KENARI_KAFKA__KEEPS_RECORDS": "false",
        "KENARI_KAFKA__FETCH_MAX_WAIT_MS": "100",
        "KENARI_TELEMETRY__TRACE_FILE": str(state.traces),
        "KENARI_KEY_HASH_SECRET": state.secret("key-hash"),
        "LEDGER_DESCRIPTOR_SECRET": state.secret("ledger-descriptor"),
        "LIMITER_VALKEY__URL": valkey_url,
        # The services start in a directory of their own, the caller's paths count from here.
        _CATALOG: str(ROOT / environment.get(_CATALOG, "deploy/catalog.yaml")),
    }
    wired |= {f"{name.upper()}_DATABASE__DSN": dsn for name, dsn in dsns.items()}
    wired |= {f"KENARI_{name.upper()}_ADDRESS": ports.rpc(name) for name in WITH_RPC}
    for service in (*WITH_RPC, "edge"):
        wired |= {setting: str(port) for setting, port in ports.of_service(service).items()}
    return wired


def save(state: State, wired: Mapping[str, str]) -> None:
    """Keep the settings of this run for `load`."""
    write_private(state.settings, json.dumps(wired, indent=1) + "\n")


def load(state: State) -> dict[str, str]:
    """The settings of the last run; raise NotStarted when there was none."""
    try:
        kept: dict[str, str] = json.loads(state.settings.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotStarted("nothing runs here yet; start it with `make run` in another terminal") from None
    return kept


def process_environment(wired: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process: the caller's, the run's settings over it, this checkout importable."""
    return {**os.environ, **wired, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
