"""The two small servers of every bench: the mock provider and the raw ASGI yardstick.
Started by tests.bench.run and tests.bench.comparison; HttpServer is also the base of the peers.
"""

import http.client
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.local import LocalServer

_HERE = Path(__file__).parent
STREAM_CHUNKS = 20


class HttpServer(LocalServer):
    """A LocalServer without data that counts as started once it answers any HTTP request."""

    @property
    def base_url(self) -> str:
        """`http://host:port`, no path."""
        return f"http://{self.address}"

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True


class MockProvider(HttpServer):
    """The provider behind every gateway measured; `api_url` is its base URL as OpenAI clients want it."""

    name = "mock provider"

    @property
    def api_url(self) -> str:
        return f"{self.base_url}/v1"

    def _command(self) -> Sequence[str]:
        program = str(_HERE / "mock_provider.py")
        return [sys.executable, program, "--port", str(self.port), "--chunks", str(STREAM_CHUNKS)]


class SilentProvider(MockProvider):
    """The same, but after the first chunk of a stream nothing comes."""

    name = "silent provider"

    def _command(self) -> Sequence[str]:
        return [*super()._command(), "--delay-ms", "3600000"]


class RawAsgi(HttpServer):
    """The application whose request is the unit of CPU cost."""

    name = "raw ASGI"

    def _command(self) -> Sequence[str]:
        return [sys.executable, str(_HERE / "raw_asgi.py"), "--port", str(self.port)]
