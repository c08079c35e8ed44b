"""A real Prometheus that scrapes a running kenari with the shipped configuration, and promtool.
Used by the tests of dashboards and alerts; both programs are Debian's package `prometheus`.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from deploy.local.addresses import Ports
from deploy.local.errors import ToolMissing
from deploy.local.process import LocalServer

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "deploy/prometheus/prometheus.yml"
RULES = ROOT / "deploy/prometheus/alerts.yml"


def promtool(*arguments: str) -> str:
    """Run promtool and return what it printed; raise AssertionError with it when it finds fault."""
    done = subprocess.run(
        [_program("promtool"), *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"promtool {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name} is not on the path; install Debian's package prometheus")
    return found


class PrometheusServer(LocalServer):
    """Prometheus with the shipped scrape configuration, its targets moved to ``ports`` and its clock set to seconds."""

    name = "Prometheus"

    def __init__(self, directory: Path, ports: Ports) -> None:
        super().__init__(directory)
        self._ports = ports

    def instant(self, expr: str) -> list[dict[str, Any]]:
        """The series an expression gives now; raise AssertionError with Prometheus' own words when it is wrong."""
        result: list[dict[str, Any]] = self._get("query", query=expr)["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """All alert rules with their health and state."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> dict[str, str]:
        """Health of every target by its label ``service``."""
        return {target["labels"]["service"]: target["health"] for target in self._get("targets")["activeTargets"]}

    def _get(self, what: str, **parameters: str) -> Any:
        answer = httpx.get(f"http://{self.address}/api/v1/{what}", params=parameters, timeout=10).json()
        assert answer["status"] == "success", f"{parameters}: {answer.get('error')}"
        return answer["data"]

    def _prepare(self) -> None:
        shipped = yaml.safe_load(CONFIG.read_text())
        shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shipped["rule_files"] = [str(RULES)]
        for static in shipped["scrape_configs"][0]["static_configs"]:
            static["targets"] = [self._ports.ops(static["labels"]["service"])]
        self._config.write_text(yaml.safe_dump(shipped))

    def _command(self) -> Sequence[str]:
        return [
            _program("prometheus"),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.data}",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        ]

    def _answers(self) -> bool:
        try:
            return httpx.get(f"http://{self.address}/-/ready", timeout=1).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    @property
    def _config(self) -> Path:
        return self.directory / "prometheus.yml"
