"""The peers as servers in front of the mock provider, set up as their makers advise for production.
Started by tests.bench.comparison. Neither keeps books here: no database, no limits, no money.
"""

import json
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.bench.load import Target
from tests.bench.mock_provider import MODEL
from tests.bench.peers.setup import Peers
from tests.bench.servers import HttpServer

_LOOPBACK = Path(__file__).parent / "portkey" / "loopback.cjs"


class _Peer(HttpServer):
    """A peer with an environment of its own: nothing of the caller's settings reaches it."""

    start_seconds = 120.0
    stop_seconds = 10.0

    def __init__(self, directory: Path, peers: Peers, provider_url: str) -> None:
        super().__init__(directory)
        self.peers = peers
        self.provider_url = provider_url

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


class LiteLLM(_Peer):
    """LiteLLM's proxy: one worker, production mode, errors only in the log, one model."""

    name = "LiteLLM"

    def __init__(self, directory: Path, peers: Peers, provider_url: str) -> None:
        super().__init__(directory, peers, provider_url)
        # It refuses to start with a key that is easy to guess.
        self.key = f"sk-{secrets.token_hex(32)}"

    def target(self) -> Target:
        return Target("litellm", self.base_url, MODEL, [self.key], {"litellm": [self.pid]})

    @property
    def _configuration(self) -> Path:
        return self.directory / "config.yaml"

    def _prepare(self) -> None:
        super()._prepare()
        provider = {"model": f"openai/{MODEL}", "api_base": self.provider_url, "api_key": "none"}
        models = [{"model_name": MODEL, "litellm_params": provider}]
        # JSON is YAML.
        self._configuration.write_text(json.dumps({"model_list": models}))

    def _command(self) -> Sequence[str]:
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--num_workers=1", "--telemetry=False"]
        return [str(self.peers.litellm_program), "--config", str(self._configuration), *options]

    def _environment(self) -> dict[str, str]:
        return {
            **super()._environment(),
            "LITELLM_MASTER_KEY": self.key,
            "LITELLM_MODE": "PRODUCTION",
            "LITELLM_LOG": "ERROR",
            # Prices come with the package; otherwise it fetches newer ones at start.
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }


class Portkey(_Peer):
    """Portkey's gateway: one process, headless; provider and address come in headers."""

    name = "Portkey"

    def target(self) -> Target:
        headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": self.provider_url}
        return Target("portkey", self.base_url, MODEL, ["none"], {"portkey": [self.pid]}, headers)

    def _command(self) -> Sequence[str]:
        node = shutil.which("node") or "node"
        program = str(self.peers.portkey_program)
        return [node, "--require", str(_LOOPBACK), program, "--headless", f"--port={self.port}"]

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "NODE_ENV": "production"}
