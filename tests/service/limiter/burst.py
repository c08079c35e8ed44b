"""A limiter process of its own: ``python -m tests.service.limiter.burst URL COUNT`` asks for COUNT paid requests of
one account, limit 60, in bursts, and prints how many were admitted. Started by test_minute_windows.py."""

import asyncio
import sys

from pydantic import SecretStr

from libs.core.clock import SystemClock
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from services.limiter.domain import Admit, Allowed, Subject
from services.limiter.service import Limiter
from services.limiter.settings import LimiterSettings, ValkeySettings
from services.limiter.store import Store
from tests.service.limiter.bench import ACCOUNT, Facts, fast


async def burst(url: str, count: int) -> int:
    telemetry = Telemetry("limiter", TelemetrySettings())
    store = Store(ValkeySettings(url=SecretStr(url), timeout_ms=1_000), telemetry)
    limiter = Limiter(
        LimiterSettings(account_rpm=60).rules(),
        fast().rules(),
        processes=2,
        accounts=Facts(),
        store=store,
        clock=SystemClock(),
        telemetry=telemetry,
    )
    admitted = 0
    for _ in range(count // 5):
        answers = await limiter.answer([Admit("", ACCOUNT, Subject.PAID_CHAT)] * 5)
        admitted += sum(isinstance(answer, Allowed) and not answer.degraded for answer in answers)
    await store.stop()
    return admitted


if __name__ == "__main__":
    print(asyncio.run(burst(sys.argv[1], int(sys.argv[2]))))
