"""Limiters on a real Valkey, built from settings as app.py does, with account facts a test can set.

Used by the tests of this folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pydantic import SecretStr

from deploy.local.valkey import ValkeyServer
from libs.core.clock import Clock, SystemClock
from libs.core.money import Micros
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.limiter.domain import Admit, Allowed, Answer, Code, Done, Refused, Standing, Subject
from services.limiter.service import Limiter
from services.limiter.settings import FreeSettings, LimiterSettings, TierSettings, ValkeySettings
from services.limiter.store import Store

ACCOUNT = "acct_a"
MODEL = "small:free"
# Tests of limits are not about speed, and the machine may be busy.
PATIENT_MS = 1_000


@dataclass
class Facts:
    """AccountFacts a test writes itself."""

    rpm: dict[str, int] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)

    def requests_per_minute(self, account_id: str) -> int:
        return self.rpm.get(account_id, 0)

    def standing(self, account_id: str, now_ms: int) -> Standing:
        return self.standings.get(account_id, Standing(Micros(0)))


class Bench:
    """Makes limiters that share the store, the facts and a supply of request ids."""

    def __init__(self, server: ValkeyServer, client: Any) -> None:
        self.server = server
        self.client = client
        self.facts = Facts()
        self.telemetry = _telemetry()
        self._stores: list[Store] = []
        self._ids = count(1)

    def limiter(
        self,
        free: FreeSettings | None = None,
        *,
        rpm: int = 600,
        usage_rpm: int = 60,
        processes: int = 1,
        timeout_ms: int = PATIENT_MS,
        clock: Clock | None = None,
        **others: Any,
    ) -> Limiter:
        """``others`` are fields of LimiterSettings."""
        settings = LimiterSettings(free=free or fast(), account_rpm=rpm, usage_reads_rpm=usage_rpm, **others)
        return Limiter(
            settings.rules(),
            settings.free.rules(),
            processes=processes,
            accounts=self.facts,
            store=self.store(timeout_ms),
            clock=clock or SystemClock(),
            telemetry=self.telemetry,
        )

    def store(self, timeout_ms: int = PATIENT_MS) -> Store:
        """A store of its own, for calls of single scripts."""
        settings = ValkeySettings(url=SecretStr(self.server.url), timeout_ms=timeout_ms)
        self.telemetry = _telemetry()
        self._stores.append(Store(settings, self.telemetry))
        return self._stores[-1]

    def metric(self, name: str, **labels: str) -> float:
        """A metric of the limiter made last."""
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0

    def paid(self, account: str = ACCOUNT) -> Admit:
        return Admit(f"req{next(self._ids)}", account, Subject.PAID_CHAT)

    def usage(self, account: str = ACCOUNT) -> Admit:
        return Admit("", account, Subject.USAGE_READ)

    def key(self, account: str = ACCOUNT, **key: Any) -> Admit:
        """A request with a key that has limits of its own; ``key`` are fields of Admit."""
        fields = {"key_id": "key_a", **key}
        return Admit(f"req{next(self._ids)}", account, Subject.KEY_REQUEST, **fields)

    def free(
        self, account: str = ACCOUNT, model: str = MODEL, rpm: int | None = None, daily: int | None = None
    ) -> Admit:
        return Admit(f"req{next(self._ids)}", account, Subject.FREE_CHAT, model, rpm, daily)

    async def close(self) -> None:
        for store in self._stores:
            await store.stop()


def _telemetry() -> Telemetry:
    return Telemetry("limiter", TelemetrySettings())


def fast(rpm: int = 0, daily: int = 0, **others: int) -> FreeSettings:
    """Free rules for new accounts whose pacing stays out of the way unless a test asks for it."""
    pacing = {"gap_min_ms": 1, "gap_max_ms": 1, "max_wait_ms": 10_000} | others
    return FreeSettings.model_validate({"new": TierSettings(rpm=rpm, daily=daily), **pacing})


def done(ask: Admit, success: bool = True, tokens: int = 0) -> Done:
    return Done(
        ask.request_id,
        ask.account_id,
        ask.model,
        success,
        ask.model_daily,
        ask.subject,
        ask.key_id if ask.key_tpm else "",
        ask.model_token_budget is not None,
        tokens,
    )


async def admit(limiter: Limiter, ask: Admit) -> Answer:
    (answer,) = await limiter.answer([ask])
    assert answer is not None
    return answer


async def allowed(limiter: Limiter, ask: Admit) -> Allowed:
    answer = await admit(limiter, ask)
    assert isinstance(answer, Allowed), answer
    return answer


async def refused(limiter: Limiter, ask: Admit) -> Refused:
    answer = await admit(limiter, ask)
    assert isinstance(answer, Refused), answer
    return answer


def count_allowed(answers: Sequence[Answer | None]) -> int:
    return sum(isinstance(answer, Allowed) for answer in answers)


def told(answer: Answer | None) -> tuple[Code, int]:
    """What a refused client is told: the code, and the seconds of Retry-After (0: no header)."""
    assert isinstance(answer, Refused), answer
    return answer.code, answer.retry_after_s
