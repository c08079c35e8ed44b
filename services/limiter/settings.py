"""Settings of the limiter: the limits themselves, the store, and how many processes share the limits.

Read once by app.py from variables ``LIMITER_...`` (or the shared ``KENARI_...``).
"""

from typing import ClassVar, Literal

from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.core.money import rupiah
from libs.core.settings import OpsSettings, Part, RpcSettings, ServiceSettings
from services.limiter import domain, limits


class ValkeySettings(Part):
    """The store of all counters, and when this process stops waiting for it."""

    url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    connections: int = Field(8, ge=1, le=64)
    # The longest a request waits for the store, in milliseconds.
    timeout_ms: int = Field(20, ge=5, le=1_000)
    # After this many failures within a second nothing is sent to the store until a probe succeeds.
    breaker_failures: int = Field(5, ge=1)
    probe_every_ms: int = Field(500, ge=50)


class TierSettings(Part):
    """Requests per minute and successes per day on free models; 0 means no limit."""

    rpm: int = Field(ge=0)
    daily: int = Field(ge=0)


class FreeSettings(Part):
    """Free-model limits by kind of account, and the pacing of bursts."""

    new: TierSettings = TierSettings(rpm=10, daily=50)
    qualified: TierSettings = TierSettings(rpm=30, daily=500)
    plan: TierSettings = TierSettings(rpm=60, daily=1_000)
    # What an account must have paid in to qualify, in Rupiah.
    threshold_idr: int = Field(50_000, ge=0)
    unqualified_rpm_cap: int = Field(0, ge=0)
    gap_min_ms: int = Field(100, ge=1)
    gap_max_ms: int = Field(1_000, ge=1)
    max_wait_ms: int = Field(10_000, ge=0)
    # Longer than any request can take: a place whose request never reports its end is free again after this.
    lease_s: int = Field(900, ge=1)
    # How long the token budget of a free model lasts, from the first token drawn on it.
    token_window_s: int = Field(86_400, ge=1)

    def rules(self) -> domain.FreeRules:
        """These settings in the units of the domain."""
        return domain.FreeRules(
            new=domain.Tier(self.new.rpm, self.new.daily),
            qualified=domain.Tier(self.qualified.rpm, self.qualified.daily),
            plan=domain.Tier(self.plan.rpm, self.plan.daily),
            threshold=rupiah(self.threshold_idr),
            unqualified_rpm_cap=self.unqualified_rpm_cap,
            gap_min_ms=self.gap_min_ms,
            gap_max_ms=self.gap_max_ms,
            max_wait_ms=self.max_wait_ms,
            lease_ms=self.lease_s * 1000,
        )


class SharedSettings(Part):
    """Keys given to others: requests per minute of all who use one, as a part of the owner's limit, and of each."""

    percent: int = Field(50, ge=1, le=100)
    least_rpm: int = Field(30, ge=1)
    address_rpm: int = Field(30, ge=1)


class PlaceSettings(Part):
    """How many may run at once; a place nobody asks to keep is free again after ``lease_s``."""

    # Of one account.
    music: int = Field(2, ge=1)
    # Of all accounts.
    passthrough: int = Field(100, ge=1)
    lease_s: int = Field(60, ge=1)


# Limits of free models are not among them: each of those is decided by what the one before it left.
Shadowable = Literal[
    domain.Limit.ACCOUNT_REQUESTS,
    domain.Limit.KEY_REQUESTS,
    domain.Limit.KEY_TOKENS,
    domain.Limit.SHARED_KEY,
    domain.Limit.ADDRESS,
    domain.Limit.USAGE_READS,
    domain.Limit.MODEL_TOKENS,
    domain.Limit.MUSIC,
    domain.Limit.PASSTHROUGH,
]


class LimiterSettings(ServiceSettings):
    """Everything the limiter can be told from outside."""

    model_config = SettingsConfigDict(env_prefix="LIMITER_")

    NAME: ClassVar[str] = "limiter"

    rpc: RpcSettings = RpcSettings(port=7103)
    ops: OpsSettings = OpsSettings(port=7203)
    valkey: ValkeySettings = ValkeySettings()
    free: FreeSettings = FreeSettings()
    # Requests per minute on paid models for accounts that have no limit of their own.
    account_rpm: int = Field(600, ge=1)
    usage_reads_rpm: int = Field(60, ge=1)
    shared: SharedSettings = SharedSettings()
    places: PlaceSettings = PlaceSettings()
    # Limits that are counted and measured and never refuse.
    shadow: frozenset[Shadowable] = frozenset()
    # How many limiter processes run: each grants its share of a limit by itself when the store is away.
    processes: int = Field(1, ge=1)

    def rules(self) -> limits.Rules:
        """The limits that are not about free models, in the units of the domain."""
        return limits.Rules(
            account_rpm=self.account_rpm,
            usage_rpm=self.usage_reads_rpm,
            address_rpm=self.shared.address_rpm,
            shared_percent=self.shared.percent,
            shared_least_rpm=self.shared.least_rpm,
            model_window_ms=self.free.token_window_s * 1000,
            music_places=self.places.music,
            passthrough_places=self.places.passthrough,
            place_ms=self.places.lease_s * 1000,
            shadow=frozenset(self.shadow),
        )
