"""Settings of the edge, read once by its app.py. Environment prefix ``EDGE_``."""

from typing import ClassVar

from pydantic import Field, IPvAnyNetwork, SecretStr
from pydantic_settings import SettingsConfigDict

from libs.core.settings import OpsSettings, Part, Port, ServiceSettings


class HttpSettings(Part):
    """The public port. ``share_port`` lets several edge processes listen on it together."""

    host: str = "127.0.0.1"
    port: Port = 8080
    share_port: bool = False


class BodyLimits(Part):
    """What a request body may cost before it is understood (contract: Errors, Plain-text responses)."""

    max_bytes: int = Field(32 * 1024 * 1024, ge=1024)
    # Silence after which an arriving body is given up, and the longest it may take in all.
    stall_s: float = Field(30.0, gt=0)
    total_s: float = Field(300.0, gt=0)
    # Bodies above ``large_bytes`` share this many bytes of memory per process.
    large_bytes: int = Field(1024 * 1024, ge=1024)
    large_budget_bytes: int = Field(256 * 1024 * 1024, ge=1024)


class Waits(Part):
    """How long a running answer may be silent."""

    # Silence after which a stream gets a comment line.
    keepalive_s: float = Field(15.0, gt=0)
    # Silence after which a JSON answer begins with a space, and from then on gets another.
    long_wait_s: float = Field(60.0, gt=0)
    space_every_s: float = Field(20.0, gt=0)
    # How long a client may take nothing of what is sent before it counts as gone.
    write_stall_s: float = Field(60.0, gt=0)


class EdgeSettings(ServiceSettings):
    """Addresses of the peers, limits and waits of the edge."""

    model_config = SettingsConfigDict(env_prefix="EDGE_")
    NAME: ClassVar[str] = "edge"

    http: HttpSettings = HttpSettings()
    ops: OpsSettings = OpsSettings(port=7200)
    body: BodyLimits = BodyLimits()

    # Where clients reach this gateway, without /v1; without it the address it listens on.
    public_url: str = ""
    accounts_address: str = "127.0.0.1:7101"
    router_address: str = "127.0.0.1:7102"
    limiter_address: str = "127.0.0.1:7103"
    ledger_address: str = "127.0.0.1:7104"

    # Keyed hashes of API keys are made with it; the accounts service has the same.
    key_hash_secret: SecretStr

    # Many times what an answer takes. Shorter ones turn a moment without processor time into refusals, and the
    # questions asked again into more load.
    limiter_timeout_s: float = Field(0.1, gt=0)
    route_timeout_s: float = Field(0.25, gt=0)
    reserve_timeout_s: float = Field(0.5, gt=0)
    # A router or ledger that restarts is asked again within this; then its absence is dealt with.
    check_patience_s: float = Field(1.0, ge=0)
    # The longest a request waits for a rate-limited provider before it goes on to the next.
    provider_wait_s: float = Field(5.0, ge=0)
    waits: Waits = Waits()
    # Host names under which the strict dialect is served, as under /kyara everywhere.
    kyara_hosts: frozenset[str] = frozenset()
    # Networks of the proxies in front whose X-Forwarded-For is believed; without any the peer's address counts.
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    # How often the holds of running requests are kept alive; well within their life.
    touch_every_s: float = Field(30.0, gt=0)
    # How often the ledger is told that requests with an idempotency key still run; well within its lease.
    idempotency_every_s: float = Field(15.0, gt=0)
    # How often the owner of the keys is told which were used.
    key_use_every_s: float = Field(2.0, gt=0)
    # Free requests per account and minute that one edge lets through while no limiter answers, and requests per
    # minute on a shared key as a whole.
    free_rpm_without_limiter: int = Field(5, ge=0)
    shared_rpm_without_limiter: int = Field(30, ge=0)
    # The longest for which what the limiter refused is refused without asking it again.
    remember_refusals_s: float = Field(2.0, ge=0)
    # The longest a free request waits for one in flight to leave its place of the daily quota.
    free_place_wait_s: float = Field(10.0, ge=0)

    @property
    def reached_at(self) -> str:
        """The base URL that clients are told, without a slash at its end."""
        return self.public_url.rstrip("/") or f"http://{self.http.host}:{self.http.port}"
