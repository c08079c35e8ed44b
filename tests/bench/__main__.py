"""Command line of the bench: `python -m tests.bench run`, `python -m tests.bench peers`, `python -m tests.bench idle`.
Called by `make bench` and `make bench-peers`.
"""

import argparse
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

from deploy.local import DirectoryLock, LocalServerError
from tests.bench.comparison import compare
from tests.bench.idle import run as run_idle
from tests.bench.load import BenchError, require_tools
from tests.bench.measure import Effort
from tests.bench.run import run

_BUILD = Path(__file__).parents[2] / "build"
_OUTPUT = _BUILD / "bench.json"
_FULL = Effort(rounds=3, seconds=5, warm_up_s=2)
_FULL_PEERS = Effort(rounds=3, seconds=4, warm_up_s=2)
_WHAT = "the gateway alone, beside LiteLLM and Portkey, or its memory for streams that stand still"
_QUICK = Effort(rounds=1, seconds=2, warm_up_s=1, repeat_disturbed=False)


def main(arguments: list[str]) -> int:
    """Exit code 0 when no request failed, whatever the figures; 1 when some failed; 2 when it could not run."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure the gateway's speed and cost")
    parser.add_argument("what", choices=("run", "peers", "idle"), help=_WHAT)
    parser.add_argument("--quick", action="store_true", help="one short round: under a minute, rough figures")
    parser.add_argument("--rounds", type=int, help="medians of this many rounds (default 3)")
    parser.add_argument("--streams", type=int, default=700, help="idle streams of each client format (default 700)")
    options = parser.parse_args(arguments)
    full = _FULL if options.what == "run" else _FULL_PEERS
    effort = _QUICK if options.quick else full
    if options.rounds:
        effort = replace(effort, rounds=options.rounds)
    # So that everything started is stopped, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if options.what == "idle":
            with DirectoryLock(_BUILD / "bench"):
                run_idle(options.streams, _BUILD / "bench" / "idle")
            return 0
        require_tools()
        failed = _measure(options.what, effort)
    except (BenchError, LocalServerError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(f"\nfigures written to build/{_OUTPUT.name}")
    if failed:
        print(f"bench: {failed} requests failed, so the figures above are not to be trusted", file=sys.stderr)
    return 1 if failed else 0


def _measure(what: str, effort: Effort) -> int:
    with DirectoryLock(_BUILD / "bench"):
        work = _BUILD / "bench" / what
        shutil.rmtree(work, ignore_errors=True)
        if what == "run":
            return run(effort, work, _OUTPUT)
        return compare(effort, work, _BUILD / "peers", _OUTPUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
