"""The launcher as a process of its own, and what it has left running.
Used by the tests of `make run`.
"""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from deploy.local.wiring import ROOT

_START_S = 100.0


class Run:
    """One run of the launcher on a directory; its output is gathered while it lives."""

    def __init__(self, directory: Path, ports: dict[str, str], **environment: str) -> None:
        self.directory = directory
        self._lines: list[str] = []
        self._up = threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.local.launcher", "--directory", str(directory)],
            cwd=ROOT,
            env={**os.environ, **ports, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line.rstrip("\n"))
            if "Ctrl-C stops" in line:
                self._up.set()
        self._up.set()

    @property
    def output(self) -> str:
        return "\n".join(self._lines)

    def ready(self) -> "Run":
        assert self._up.wait(_START_S), self.output
        assert self.process.poll() is None, self.output
        return self

    @property
    def key(self) -> str:
        found = re.search(r"Key +(kn-\S+)", self.output)
        assert found, self.output
        return found[1]

    def curls(self) -> list[str]:
        return [line.strip() for line in self._lines if line.strip().startswith("curl ")]

    def ends(self, within_s: float = 40.0) -> int:
        code = self.process.wait(within_s)
        self._reader.join(5)
        return code


def processes_below(directory: Path) -> dict[int, str]:
    """Commands by id of the processes that mention the directory or work in it."""
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            place = (process / "cwd").readlink()
        except OSError:
            continue
        if str(directory) in command or place.is_relative_to(directory):
            found[int(process.name)] = command
    return found
