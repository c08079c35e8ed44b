"""Put each fault into a copy of the code, run the fast suites of money there, and print who noticed it.

Run by `make mutants`; ARGS="name name" tries only these. Ends with 1 when a fault went unnoticed.
"""

import argparse
import asyncio
import re
import shutil
import sys
from pathlib import Path

from tests.money.mutants.faults import FAULTS, Fault, applied

ROOT = Path(__file__).resolve().parents[3]
PLACE = ROOT / "build" / "mutants"
COPIED = ("services", "libs", "tests", "proto", "deploy")
SUITES = ("tests/unit/ledger", "tests/money", "tests/service/ledger")
_TIME_S = 600.0


def copy(fault: Fault) -> Path:
    """A tree of its own with the fault in it."""
    place = PLACE / fault.name
    shutil.rmtree(place, ignore_errors=True)
    for name in COPIED:
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__", "compat", "bench"))
    shutil.copy(ROOT / "pyproject.toml", place)
    (place / ".venv").symlink_to(ROOT / ".venv")
    path = place / fault.path
    path.write_text(applied(fault, path.read_text()))
    return place


async def noticed(fault: Fault) -> str | None:
    """The first test that fails, None when all pass."""
    place = await asyncio.to_thread(copy, fault)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=no", *fault.suites, *SUITES),
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
    await asyncio.to_thread(shutil.rmtree, place, True)
    if process.returncode == 0:
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", out.decode(), re.MULTILINE)
    return found[1] if found else f"(exit {process.returncode})"


async def main(names: list[str]) -> int:
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    width = max(len(fault.name) for fault in chosen)
    missed = 0
    for fault in chosen:
        by = await noticed(fault)
        missed += by is None
        print(
            f"{'MISSED' if by is None else 'caught':7} {fault.name:{width}}  {fault.what}\n{'':8}{by or ''}", flush=True
        )
    print(f"{len(chosen) - missed} of {len(chosen)} faults noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    sys.exit(asyncio.run(main(parser.parse_args().names)))
