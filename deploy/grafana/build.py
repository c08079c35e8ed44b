"""`python -m deploy.grafana.build [--check]`: write the dashboards, or tell which are stale.
Called by make; the boards are made of the metrics that services declare.
"""

import argparse
import sys
from collections.abc import Sequence

from deploy.generate.files import Generated
from deploy.grafana.boards import accounts, edge, ledger, limiter, overview, router
from deploy.grafana.layout import Board

FOLDER = "deploy/grafana/dashboards"
BOARDS: tuple[Board, ...] = tuple(module.BOARD for module in (overview, edge, accounts, router, limiter, ledger))


def generate() -> Generated:
    """What the folder of dashboards should hold."""
    return Generated((FOLDER,), (".json",), {f"{FOLDER}/{board.name}.json": board.render() for board in BOARDS})


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 when --check finds a stale file."""
    parser = argparse.ArgumentParser(prog="python -m deploy.grafana.build", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a file is stale")
    options = parser.parse_args(arguments)
    generated = generate()
    paths = generated.stale() if options.check else generated.write()
    for path in paths:
        print(f"{path}: stale; run `make dashboards`" if options.check else f"{path} written")
    return 1 if options.check and paths else 0


if __name__ == "__main__":
    sys.exit(main())
