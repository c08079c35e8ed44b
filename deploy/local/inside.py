"""Runs a Python module with the settings of the last `make run`: its databases, its broker, its secrets.
Called by make, as `python -m deploy.local.inside -m libs.kafka.topics verify --bootstrap {KENARI_KAFKA__BOOTSTRAP}`.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from deploy.local import wiring
from deploy.local.errors import LocalServerError
from deploy.local.wiring import DEFAULT_STATE, State


def main(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by `python ARGUMENTS`, with a {SETTING} among them filled in.

    Exits with one line when nothing was ever started.
    """
    try:
        wired = wiring.load(State(DEFAULT_STATE))
    except LocalServerError as error:
        sys.exit(f"kenari: {error}")
    filled = [argument.format_map(wired) if argument.startswith("{") else argument for argument in arguments]
    os.execve(sys.executable, [sys.executable, *filled], wiring.process_environment(wired))


if __name__ == "__main__":
    main(sys.argv[1:])
