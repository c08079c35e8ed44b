"""Remembers the last outcome of every test that proves a rule, across pytest invocations.
Written by the coverage plugin at the end of a run, read by the coverage command."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Outcome = Literal["passed", "failed", "skipped"]

RESULTS_FILE = Path("build") / "rules.json"


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def load(root: Path) -> dict[str, Outcome]:
    """Last outcome by test id; empty when nothing ran yet.

    Raises json.JSONDecodeError when the file was damaged by hand.
    """
    path = root / RESULTS_FILE
    if not path.exists():
        return {}
    outcomes: dict[str, Outcome] = json.loads(path.read_text(encoding="utf-8"))
    return outcomes


def merge(root: Path, outcomes: Mapping[str, Outcome]) -> None:
    """Put the outcomes of one run over those of earlier runs; runs may end at the same moment."""
    path = root / RESULTS_FILE
    with _locked(path.parent):
        merged = {**load(root), **outcomes}
        fresh = path.with_suffix(".tmp")
        fresh.write_text(json.dumps(merged, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        fresh.replace(path)
