"""Runs a program as another user: PostgreSQL refuses to run as root.
Started by deploy.local.postgres as `python unprivileged.py UID GID reach|- PROGRAM ARGUMENT...` when we are root.

With `reach` the program keeps one right of root, to pass through directories that are closed to others, because
a checkout below /root or a private temporary directory would otherwise hide its own files from it.
"""

import ctypes
import os
import struct
import sys

_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAP_DAC_OVERRIDE = 1
_CAPABILITY_VERSION_3 = 0x20080522


def run_as(uid: int, gid: int, keep_reach: bool, command: list[str]) -> None:
    """Replace this process by `command` under the given user; returns never."""
    libc = ctypes.CDLL(None, use_errno=True)
    if keep_reach:
        libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if keep_reach:
        _keep_directory_access(libc)
    os.execv(command[0], command)


def _keep_directory_access(libc: ctypes.CDLL) -> None:
    bit = 1 << _CAP_DAC_OVERRIDE
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    wanted = struct.pack("6I", bit, bit, bit, 0, 0, 0)
    # Where the right is not ours to keep (a stripped container) the program still starts if its files are open.
    if libc.capset(header, wanted) == 0:
        libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)


if __name__ == "__main__":
    run_as(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "reach", sys.argv[4:])
