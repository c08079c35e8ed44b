"""The base of all errors of ours, and the two classes that consumers and callers treat differently.

Raised everywhere; caught by entry points, which map ``reason`` to their own wire.
"""


class KenariError(Exception):
    """Base of every error of ours; ``reason`` is stable and safe to show in logs and metrics."""

    reason = "internal"

    def __init__(self, message: str = "", *, reason: str | None = None) -> None:
        super().__init__(message or reason or self.reason)
        if reason is not None:
            self.reason = reason


class Transient(KenariError):
    """A dependency is away; trying the same thing later can succeed. Never a dead letter."""

    reason = "unavailable"


class Permanent(KenariError):
    """The input itself is wrong; trying again cannot help."""

    reason = "invalid"


class ConfigError(KenariError):
    """Settings or a configuration file cannot be used; the message is one line for an operator."""

    reason = "config"
