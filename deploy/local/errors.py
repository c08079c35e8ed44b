"""The ways starting a local server goes wrong, each as one line a newcomer can act on.
Raised by everything in deploy.local; `make run` prints the message and exits.
"""


class LocalServerError(Exception):
    """Base of all errors here. `str(error)` is meant to be shown as it stands."""

    reason = "local_server"


class ToolMissing(LocalServerError):
    """A program or package that the server needs is not on this machine."""

    reason = "tool_missing"


class PortTaken(LocalServerError):
    """Another program listens on the port. The message names the port and the setting that moves it."""

    reason = "port_taken"

    def __init__(self, server: str, port: int, setting: str) -> None:
        super().__init__(
            f"{server}: port {port} is taken by another program; stop that program or set {setting} to a free port"
        )
        self.port = port
        self.setting = setting


class StartFailed(LocalServerError):
    """The server ended or stayed silent instead of answering. The message carries the end of its log."""

    reason = "start_failed"
