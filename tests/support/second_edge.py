"""A further edge process of a running kenari, for what must hold whichever of several edges is asked.
Used by tests of keys and limits.
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
    ports = Ports({**system.ports.by_setting, **own})
    state = wiring.State(directory)
    state.logs.mkdir(parents=True, exist_ok=True)
    settings = {
        **system.settings(),
        **{name: str(port) for name, port in own.items()},
        "KENARI_KAFKA__SPOOL_DIR": str(directory / "spool"),
        **environment,
    }
    process = ServiceProcess(state, "edge", ("edge",), ports, settings, lambda _: None, lambda: False)
    process.start()
    try:
        yield FurtherEdge(ports.base_url, process.log_file)
    finally:
        process.stop()
