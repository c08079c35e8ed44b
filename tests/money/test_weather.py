"""Money through a network and a bus that lose, repeat, delay and reorder, with edges that die."""

import logging
import random

import pytest

from tests.money.dice import Dice
from tests.money.ledger import RealLedger
from tests.money.pair import Pair
from tests.money.sizes import LONG_S, SEED, WEATHER_STEPS, WEATHERS
from tests.money.weather import Weather


@pytest.mark.timeout(LONG_S)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_written_down_is_charged_once_whatever_gets_lost(
    real: RealLedger, caplog: pytest.LogCaptureFixture
) -> None:
    """KENARI_SEED repeats the run that failed."""
    caplog.set_level(logging.CRITICAL, "kenari.ledger")
    began = real.clock.now_ms()
    for seed in [SEED] if SEED else [random.randrange(1, 10**9) for _ in range(WEATHERS)]:
        await real.clock.set(began)
        pair = Pair(real, began)
        try:
            await Weather(pair, Dice(seed)).play(WEATHER_STEPS)
        except AssertionError as error:
            lately = "\n".join(pair.told[-12:])
            raise AssertionError(f"KENARI_SEED={seed}\n{error}\nafter:\n{lately}") from error
