"""Settings of the router: ``ROUTER_*``, else the shared ``KENARI_*``.

Called by services/router/app.py.
"""

from pathlib import Path
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.core.settings import DatabaseSettings, OpsSettings, Part, RpcSettings, ServiceSettings
from services.router.domain import HealthRules


class HealthSettings(Part):
    """When a failing upstream is paused. See domain.HealthRules; times in milliseconds."""

    failures_in_row: int = Field(HealthRules.failures_in_row, ge=1)
    window_ms: int = Field(HealthRules.window_ms, ge=1)
    window_least: int = Field(HealthRules.window_least, ge=1)
    window_percent: int = Field(HealthRules.window_percent, ge=1, le=100)
    first_pause_ms: int = Field(HealthRules.first_pause_ms, ge=1)
    longest_pause_ms: int = Field(HealthRules.longest_pause_ms, ge=1)
    longest_retry_after_ms: int = Field(HealthRules.longest_retry_after_ms, ge=0)
    forgive_ms: int = Field(HealthRules.forgive_ms, ge=0)
    stale_ms: int = Field(HealthRules.stale_ms, ge=1)
    probe_ms: int = Field(HealthRules.probe_ms, ge=1)
    probe_first_byte_ms: int = Field(HealthRules.probe_first_byte_ms, ge=1)

    def rules(self) -> HealthRules:
        """The same figures as the domain takes them."""
        return HealthRules(**self.model_dump())


class RouterSettings(ServiceSettings):
    """Everything the router reads from the environment."""

    model_config = SettingsConfigDict(env_prefix="ROUTER_")

    NAME: ClassVar[str] = "router"

    database: DatabaseSettings
    rpc: RpcSettings = RpcSettings(port=7102)
    ops: OpsSettings = OpsSettings(port=7202)
    catalog_file: Path = Path("deploy/catalog.yaml")
    # How often the lists of providers with ``discover`` are read; after a failure sooner.
    discover_every_s: float = Field(300.0, gt=0)
    health: HealthSettings = HealthSettings()
