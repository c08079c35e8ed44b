"""Random lives of accounts: after every step the real ledger must agree with the model in everything it tells."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.money.conftest import opened
from tests.money.dice import Dice, Seeded, Shrinkable
from tests.money.ledger import RealLedger
from tests.money.pair import Pair
from tests.money.sizes import LONG_S, SEED, STORIES, STORY_STEPS
from tests.money.stories import Story
from tests.support.stack import Postgres

SHRINKABLE_STEPS = 30
"""What fits into the choices of one Hypothesis example."""


@contextmanager
def running(postgres: Postgres, dsn: str) -> Iterator[tuple[asyncio.Runner, RealLedger]]:
    """A ledger for tests that are not coroutines themselves."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        real = runner.run(stack.enter_async_context(opened(postgres, dsn)))
        try:
            yield runner, real
        finally:
            runner.run(stack.aclose())


async def play(real: RealLedger, began: int, dice: Dice, steps: int) -> None:
    await real.clock.set(began)
    await Story(Pair(real, began), dice).play(steps)


@pytest.mark.timeout(LONG_S)
def test_stories_that_can_be_shrunk(postgres: Postgres, money_dsn: str) -> None:
    with running(postgres, money_dsn) as (runner, real):
        began = real.clock.now_ms()

        @settings(
            max_examples=STORIES // 2,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.reuse, Phase.generate, Phase.shrink),
        )
        @given(st.data())
        def story(data: st.DataObject) -> None:
            runner.run(play(real, began, Shrinkable(data), SHRINKABLE_STEPS))

        story()


@pytest.mark.timeout(LONG_S)
def test_long_stories(postgres: Postgres, money_dsn: str) -> None:
    """KENARI_SEED repeats the one that failed."""
    seeds = [SEED] if SEED else [random.randrange(1, 10**9) for _ in range(STORIES // 2)]
    with running(postgres, money_dsn) as (runner, real):
        began = real.clock.now_ms()
        for seed in seeds:
            try:
                runner.run(play(real, began, Seeded(seed), STORY_STEPS))
            except AssertionError as error:
                raise AssertionError(f"KENARI_SEED={seed}: {error}") from error
