"""How much the tests of money try: little enough for every run, or as much as `make nightly` has time for.

Read by the tests of this folder.
"""

import os

NIGHTLY = bool(os.environ.get("KENARI_NIGHTLY"))

EXAMPLES = 20_000 if NIGHTLY else 500
"""Examples of each property."""

STORIES = 5_000 if NIGHTLY else 25
STORY_STEPS = 200 if NIGHTLY else 40
"""Random lives of an account, and the steps of each."""

WEATHERS = 300 if NIGHTLY else 5
WEATHER_STEPS = 500 if NIGHTLY else 120
"""Runs of the bad network, and what happens in each."""

CROWD_S = 600.0 if NIGHTLY else 8.0
"""How long the crowd rushes, in seconds."""

LONG_S = 6 * 3_600 if NIGHTLY else 120
"""The longest one of these tests may take, in seconds."""

SEED = int(os.environ.get("KENARI_SEED", "0"))
"""The seed to repeat; 0: a new one each run."""
