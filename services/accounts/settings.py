"""Settings of accounts. Read once by app.py from variables ``ACCOUNTS_...`` (or the shared ``KENARI_...``)."""

from typing import ClassVar

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.core.settings import DatabaseSettings, OpsSettings, RpcSettings, ServiceSettings


class AccountsSettings(ServiceSettings):
    """Everything accounts can be told from outside."""

    model_config = SettingsConfigDict(env_prefix="ACCOUNTS_")

    NAME: ClassVar[str] = "accounts"

    rpc: RpcSettings = RpcSettings(port=7101)
    ops: OpsSettings = OpsSettings(port=7201)
    database: DatabaseSettings
    # Shared with the edge. A new one makes every key unknown.
    key_hash_secret: SecretStr = Field(min_length=16)
    # Keys that one account may have, revoked and expired ones not counted.
    key_limit: int = Field(100, ge=1)
    # How long a watcher may have been away and still be told everything it missed.
    watch_replay_s: float = Field(60.0, ge=0)
    watch_heartbeat_s: float = Field(5.0, gt=0)
