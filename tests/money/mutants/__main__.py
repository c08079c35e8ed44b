"""Put each fault into a copy of the code, run the suites of money there, and print who noticed it.

Run by `make mutants`; ARGS="name name" tries only these. Ends with 1 when a fault went unnoticed.
"""

import argparse
import asyncio
import os
import re
import shutil
import sys
import time
from pathlib import Path

from tests.money.mutants import FAULTS
from tests.money.mutants.faults import Fault, applied

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / "build" / "mutants"
BASE = PLACE / "base"
COPIED = ("services", "libs", "tests", "proto", "deploy")
# Not the crowd: what fails there on a busy machine need not be the fault.
SUITES = ("tests/money", "tests/unit/ledger", "--ignore=tests/money/test_crowds.py")
AT_ONCE = 2
_TIME_S = 900.0


def snapshot() -> None:
    """The code as it is now: later edits do not mix into a run."""
    shutil.rmtree(PLACE, ignore_errors=True)
    for name in COPIED:
        shutil.copytree(ROOT / name, BASE / name, ignore=shutil.ignore_patterns("__pycache__", "compat", "bench"))
    shutil.copy(ROOT / "pyproject.toml", BASE)


def copy(fault: Fault) -> Path:
    """A tree of its own with the fault in it; all other files are shared."""
    place = PLACE / fault.name
    shutil.copytree(BASE, place, copy_function=os.link, ignore=shutil.ignore_patterns("__pycache__"))
    path = place / fault.path
    text = path.read_text()
    path.unlink()
    path.write_text(applied(fault, text))
    return place


async def noticed(fault: Fault) -> str | None:
    """The first test that fails, None when all pass: those that should notice, else all of money's."""
    place = await asyncio.to_thread(copy, fault)
    try:
        return await _failing(place, (fault.suite,)) or await _failing(place, SUITES)
    finally:
        await asyncio.to_thread(shutil.rmtree, place, True)


async def _failing(place: Path, suites: tuple[str, ...]) -> str | None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *suites),
        cwd=place,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), _TIME_S)
    except TimeoutError:
        process.kill()
        await process.wait()
        return "(hung)"
    if process.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", out.decode(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"the tests do not run in {place}:\n{out.decode()[-2_000:]}")
    return found[1]


async def main(names: list[str]) -> int:
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    width = max(len(fault.name) for fault in chosen)
    await asyncio.to_thread(snapshot)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(fault: Fault) -> bool:
        async with gate:
            began = time.monotonic()
            by = await noticed(fault)
        verdict = "MISSED" if by is None else "caught"
        took = time.monotonic() - began
        print(f"{verdict}  {fault.name:{width}}  {took:4.0f} s  {fault.what}\n{'':8}by {by or 'nobody'}", flush=True)
        return by is not None

    caught = sum(await asyncio.gather(*(one(fault) for fault in chosen)))
    print(f"{caught} of {len(chosen)} faults noticed")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    sys.exit(asyncio.run(main(parser.parse_args().names)))
