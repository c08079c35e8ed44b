"""Settings of the ledger: where its database is, and the rules an operator may turn.

Read once by app.py from variables ``LEDGER_...`` (or the shared ``KENARI_...``).
"""

from typing import ClassVar

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.core.settings import DatabaseSettings, OpsSettings, Part, RpcSettings, ServiceSettings


class QueueSettings(Part):
    """How calls wait for the commit under way."""

    # Batches under way at the same time; all calls of one account meet in one of them.
    shards: int = Field(1, ge=1, le=16)
    max_batch: int = Field(256, ge=1, le=1_000)
    per_account: int = Field(2_000, ge=1)


class KeepSettings(Part):
    """How many days of partitions are kept, and how many are made in advance."""

    ahead_days: int = Field(7, ge=2)
    hold_days: int = Field(45, ge=2)
    usage_days: int = Field(400, ge=366)


class IdempotencySettings(Part):
    """How long the outcome of a request with an idempotency key is kept, and a request nobody hears of waited for."""

    keep_s: float = Field(86_400.0, gt=0)
    # Several times what edges take to say that a request still runs.
    lease_s: float = Field(60.0, gt=0)
    forget_every_s: float = Field(600.0, gt=0)


class LedgerSettings(ServiceSettings):
    """Everything the ledger can be told from outside."""

    model_config = SettingsConfigDict(env_prefix="LEDGER_")
    NAME: ClassVar[str] = "ledger"

    database: DatabaseSettings
    rpc: RpcSettings = RpcSettings(port=7104)
    ops: OpsSettings = OpsSettings(port=7204)
    router_address: str = "127.0.0.1:7102"
    # Signs hold descriptors; all ledger processes have the same, over all their lives.
    descriptor_secret: SecretStr = Field(min_length=16)

    queue: QueueSettings = QueueSettings()
    keep: KeepSettings = KeepSettings()
    idempotency: IdempotencySettings = IdempotencySettings()

    # A stream the provider broke off: free (decision 3), or charged for what was delivered.
    charge_interrupted: bool = False
    # How long a hold lives without a Touch, on the database's clock.
    hold_ttl_s: float = Field(120.0, gt=0)
    # How far the time inside a request id may be from the database's clock at Reserve.
    id_window_s: float = Field(300.0, gt=0)
    # Named in the refusal of a request that the balance cannot pay.
    top_up_url: str = "https://kenari.id/pay"

    sweep_every_s: float = Field(2.0, gt=0)
    # Between its end and this a subscription is over, whether it renews or not.
    renew_every_s: float = Field(1.0, gt=0)
    # Reads scan what the sums do not hold yet.
    rollup_every_s: float = Field(1.0, gt=0)
    measure_every_s: float = Field(15.0, gt=0)
    partitions_every_s: float = Field(3_600.0, gt=0)
    reconcile_every_s: float = Field(60.0, gt=0)
