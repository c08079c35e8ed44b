"""Ledger processes that tests start, measure and kill. Used by load.py and the kill tests."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from libs.rpc.checks import CheckClient

ROOT = Path(__file__).resolve().parents[3]


class LedgerProcess:
    """One bare ledger (bare.py). Its port stays the same over restarts."""

    def __init__(self, dsn: str, port: int = 0, *, ttl_s: float = 120.0, shards: int = 2) -> None:
        self._dsn = dsn
        self._options = ["--ttl", str(ttl_s), "--shards", str(shards)]
        self.port = port
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it serves."""
        command = [sys.executable, "-m", "tests.service.ledger.bare", self._dsn, str(self.port), *self._options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the ledger process ended with {self._process.wait()}")
        self.port = int(line)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(15)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


async def connected(checks: CheckClient) -> None:
    """Wait until the check stream is open."""
    async with asyncio.timeout(15):
        while checks.problem() is not None:  # noqa: ASYNC110  (the client has no event for it)
            await asyncio.sleep(0.01)


def cpu_s(pid: int) -> float:
    """CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family_cpu_s(pid: int) -> float:
    """CPU seconds of a process, its living children, and its children that have ended."""
    total = cpu_s(pid)
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    total += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if parent == pid:
                    total += cpu_s(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return total
