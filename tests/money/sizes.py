"""How much the tests of money try: little enough for every run, or as much as `make nightly` has time for.

Read by the tests of this folder.
"""

import os

NIGHTLY = bool(os.environ.get("KENARI_NIGHTLY"))

EXAMPLES = 20_000 if NIGHTLY else 500
"""Examples of each property."""
