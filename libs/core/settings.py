"""Settings of a service: one frozen class each, read once from the environment and passed down.

Called by services/*/settings.py (which subclass ServiceSettings) and services/*/app.py (which reads them).
A variable is looked up under the service's prefix first (``LEDGER_KAFKA__BOOTSTRAP``), then under the shared
one (``KENARI_KAFKA__BOOTSTRAP``); an empty one counts as not set.
"""

import os
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from libs.core.errors import ConfigError

SHARED_PREFIX = "KENARI_"
# The password of an address such as postgresql://user:password@host, wherever one is given.
_PASSWORD = re.compile(r"(?<=://)([^/@:\s]*):[^/@\s]+(?=@)")

Port = Annotated[int, Field(ge=0, le=65535)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda text: str(text).upper())]


class Part(BaseModel):
    """Base of a group of settings that several services share."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSettings(Part):
    """The broker and how this process talks to it. Times in milliseconds."""

    bootstrap: str = "127.0.0.1:9092"
    # Off where the broker does not know idempotent producers; consumers never rely on it.
    idempotence: bool = False
    request_timeout_ms: int = Field(40_000, ge=1_000)
    # How long a crashed consumer's records wait before another takes them over.
    session_timeout_ms: int = Field(10_000, ge=1_000)
    # How long a request for records waits at the broker for some to come.
    fetch_max_wait_ms: int = Field(500, ge=10)
    # Off where the broker forgets everything when it stops: then what it took is kept here too, and sent again.
    keeps_records: bool = True
    spool_dir: Path = Path("build/spool")


class DatabaseSettings(Part):
    """One database and role of this service's own."""

    dsn: SecretStr
    pool_max: int = Field(4, ge=1, le=64)


class RpcSettings(Part):
    """Where this service listens for gRPC."""

    host: str = "127.0.0.1"
    port: Port
    # Lets grpcurl and the like list the methods; off in production.
    reflection: bool = False


class OpsSettings(Part):
    """Where this service serves /live, /ready, /metrics, /asyncapi and /version."""

    host: str = "127.0.0.1"
    port: Port


class TelemetrySettings(Part):
    """Logs and traces. Spans go to ``otlp_endpoint`` if set, else to ``trace_file`` if set, else nowhere."""

    log_level: LogLevel = "INFO"
    trace_ratio: float = Field(1.0, ge=0, le=1)
    otlp_endpoint: str | None = None
    trace_file: Path | None = None


class ServiceSettings(BaseSettings):
    """Base of every service's settings; a subclass sets its ``env_prefix`` and adds what it needs."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        # Setting one field of a group keeps the defaults of its others.
        nested_model_default_partial_update=True,
        hide_input_in_errors=True,
    )

    NAME: ClassVar[str]

    kafka: KafkaSettings = KafkaSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    shutdown_grace_s: float = Field(10.0, ge=0)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, EnvSettingsSource(settings_cls, env_prefix=SHARED_PREFIX)

    @classmethod
    def read(cls, **values: Any) -> Self:
        """Read the environment; raise ConfigError with one line per wrong or missing variable."""
        try:
            return cls(**values)
        except ValidationError as error:
            lines = [f"{cls._variable(item['loc'])}: {item['msg']}" for item in error.errors(include_input=False)]
            raise ConfigError("\n".join(lines)) from error
        except SettingsError as error:
            # A group given as a whole has to be JSON; the message names the field but not the value.
            raise ConfigError(f"{cls.model_config.get('env_prefix', '')}*: {error}") from error

    @classmethod
    def _variable(cls, location: tuple[int | str, ...]) -> str:
        """The variable behind a field: the shared one if only that is set, else the service's own."""
        name = "__".join(str(part) for part in location).upper()
        own, shared = f"{cls.model_config.get('env_prefix', '')}{name}", f"{SHARED_PREFIX}{name}"
        return shared if shared in os.environ and not os.environ.get(own) else own

    def masked(self) -> dict[str, Any]:
        """All values for people: secrets masked, and the passwords of any other address."""
        return {name: _without_passwords(value) for name, value in self.model_dump(mode="json").items()}


def _without_passwords(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_passwords(inner) for name, inner in value.items()}
        case list():
            return [_without_passwords(inner) for inner in value]
        case str():
            return _PASSWORD.sub(r"\1:**********", value)
    return value
