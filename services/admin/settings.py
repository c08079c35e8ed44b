"""Where the operator's command line finds the services: the same addresses as theirs."""

from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from libs.core.settings import ServiceSettings


class AdminSettings(ServiceSettings):
    """Addresses of the services it asks, under ``ADMIN_`` or the shared ``KENARI_``."""

    model_config = SettingsConfigDict(env_prefix="ADMIN_")
    NAME: ClassVar[str] = "admin"

    accounts_address: str = "127.0.0.1:7101"
    router_address: str = "127.0.0.1:7102"
    ledger_address: str = "127.0.0.1:7104"
    timeout_s: float = Field(10.0, gt=0)
