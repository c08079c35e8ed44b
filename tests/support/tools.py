"""Runs the project's own command-line modules as a user would.
Used by tests that need a migrated database, applied topics or a checked ledger.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_tool(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run ``python -m module arguments`` and return what it printed; raise AssertionError with it on failure."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"python -m {module} failed:\n{done.stdout}{done.stderr}"
    return done.stdout
