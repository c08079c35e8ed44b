"""Finds the server programs that come inside Python packages, without importing those packages.
Called by the local servers; importing the packages would start their own management of processes.
"""

import importlib.util
import os
import stat
from pathlib import Path


def packaged_program(package: str, relative: str) -> Path | None:
    """Path of a program inside an installed package, made executable if it is not; None when there is none."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    program = Path(spec.submodule_search_locations[0]) / relative
    if not program.is_file():
        return None
    if not os.access(program, os.X_OK):
        # Some installers drop the bit when they unpack a wheel.
        program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return program
