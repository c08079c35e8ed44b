"""Command line: `python -m tests.compat [--suite DIRECTORY] [--only CLIENTS] [--faces FACES]`.
Called by `make compat`.
"""

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence

from deploy.local import DirectoryLock, LocalServerError
from tests.compat import exclusions, faces, gateway, suite
from tests.compat.faces import Face
from tests.compat.suite import Suite, SuiteMissing
from tests.compat.tally import Tally
from tests.support.tools import ROOT

_BUILD = ROOT / "build" / "compat"


def main(arguments: list[str]) -> int:
    """Exit code 0 when no check failed, 1 when some did, 2 when it could not run."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description="Real clients against the gateway")
    parser.add_argument("--suite", default="", help=f"folder of the suite (default: {suite.SETTING})")
    parser.add_argument("--only", default="", help="clients of the suite, with commas (default: all)")
    parser.add_argument("--faces", default="", help="provider formats, with commas (default: all)")
    options = parser.parse_args(arguments)
    # So that everything started is stopped, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        chosen = faces.named(options.faces)
        tally = _run(suite.find(options.suite), chosen, options.only)
    except (SuiteMissing, ValueError, LocalServerError) as error:
        print(f"compat: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(tally.text())
    return 1 if tally.failures else 0


def _run(clients: Suite, chosen: Sequence[Face], only: str) -> Tally:
    tally = Tally()
    with DirectoryLock(_BUILD):
        run = _BUILD / "run"
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir(parents=True)
        print(exclusions.text())
        print("starting the scripted provider, PostgreSQL, Valkey, Apache Kafka and the services", flush=True)
        with gateway.running(run, clients.provider, chosen) as running:
            for face in chosen:
                print(f"\nface {face.name}: models served by a provider of format {face.format}", flush=True)
                clients.run(running, face, only, tally)
    print(f"\n{tally.skipped} left out")
    return tally


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
