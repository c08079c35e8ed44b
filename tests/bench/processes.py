"""What processes cost: CPU time and resident memory of named process trees, read from /proc.
Called by tests.bench.load around every run of load.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

Roots = Mapping[str, Sequence[int]]

_PROC = Path("/proc")
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on, or None when the process is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def trees(roots: Roots) -> dict[str, set[int]]:
    """All processes below each name's roots. A root below that of another name counts for its own."""
    children = _children()
    owned = {pid for pids in roots.values() for pid in pids}
    result: dict[str, set[int]] = {}
    for name, pids in roots.items():
        found: set[int] = set()
        waiting = list(pids)
        while waiting:
            pid = waiting.pop()
            found.add(pid)
            waiting += [child for child in children.get(pid, []) if child not in owned]
        result[name] = found
    return result


def cpu_ms(roots: Roots) -> dict[str, float]:
    """CPU time so far of each tree, user and system, ended children included: differences of calls are right."""
    return {name: sum(map(_cpu_ms, pids)) for name, pids in trees(roots).items()}


def _cpu_ms(pid: int) -> float:
    fields = _stat(pid)
    # utime, stime, and the same of children that ended and were waited for.
    return sum(map(int, fields[11:15])) * _TICK_MS if fields is not None else 0.0


def memory_mib(roots: Roots) -> dict[str, float]:
    """Resident memory of each tree, a page shared by n processes counting as 1/n in each (Pss)."""
    return {name: sum(map(_pss_kib, pids)) / 1024 for name, pids in trees(roots).items()}


def _pss_kib(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def machine_busy_ms() -> float:
    """CPU time that all processors of the machine have spent working since it started."""
    fields = [int(field) for field in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, waiting_for_disk = fields[3], fields[4]
    return (sum(fields) - idle - waiting_for_disk) * _TICK_MS


def missing(roots: Roots) -> list[str]:
    """Names with a root that is not alive."""
    return [name for name, pids in roots.items() if any(_stat(pid) is None for pid in pids)]
