"""A further edge or ledger process of a running kenari, for what must hold whichever of several is asked.
Used by tests of keys, limits and money.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local import wiring
from deploy.local.addresses import HTTP, Ports
from deploy.local.ports import pick_free_port
from deploy.local.services import ServiceProcess
from tests.support.system import System


@dataclass(frozen=True)
class FurtherEdge:
    """Where it answers, and the file of its log."""

    base_url: str
    log_file: Path


@contextmanager
def further_edge(system: System, directory: Path, environment: Mapping[str, str]) -> Iterator[FurtherEdge]:
    """One more edge beside that of ``system``; ``environment`` overrides settings of this process alone."""
    own = {HTTP: pick_free_port(), "EDGE_OPS__PORT": pick_free_port()}
    with _further(system, "edge", directory, own, environment) as process:
        yield FurtherEdge(Ports({**system.ports.by_setting, **own}).base_url, process.log_file)


@contextmanager
def further_ledger(system: System, directory: Path) -> Iterator[str]:
    """One more ledger on the same books; yields the address it is asked at."""
    own = {"LEDGER_RPC__PORT": pick_free_port(), "LEDGER_OPS__PORT": pick_free_port()}
    with _further(system, "ledger", directory, own, {}):
        yield Ports({**system.ports.by_setting, **own}).rpc("ledger")


@contextmanager
def _further(
    system: System, service: str, directory: Path, own: Mapping[str, int], environment: Mapping[str, str]
) -> Iterator[ServiceProcess]:
    ports = Ports({**system.ports.by_setting, **own})
    state = wiring.State(directory)
    state.logs.mkdir(parents=True, exist_ok=True)
    settings = {
        **system.settings(),
        **{name: str(port) for name, port in own.items()},
        "KENARI_KAFKA__SPOOL_DIR": str(directory / "spool"),
        **environment,
    }
    process = ServiceProcess(state, service, (service,), ports, settings, lambda _: None, lambda: False)
    process.start()
    try:
        yield process
    finally:
        process.stop()
