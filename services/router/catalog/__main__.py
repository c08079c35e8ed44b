"""``python -m services.router.catalog check FILE``: says what is wrong with a catalogue file, or what is in it.

Called by operators and by tests; exit code 0 when the file can be used, 1 when not.
"""

import argparse
import os
import sys
from pathlib import Path

from services.router.catalog.load import load
from services.router.catalog.marks import CatalogError


def main(arguments: list[str]) -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m services.router.catalog", description="The catalogue file.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="exit 0 when the file can be used, else list every mistake")
    check.add_argument("file", type=Path)
    file: Path = parser.parse_args(arguments).file
    try:
        loaded = load(file, os.environ)
    except CatalogError as error:
        print(error, file=sys.stderr)
        return 1
    in_use = ", ".join(provider.id for provider in loaded.providers) or "none"
    print(f"{file}: {len(loaded.models)} models; providers in use: {in_use}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
