"""Makes .venv from the lock files: quick when nothing changed, recovered when an earlier try was interrupted.
Called by deploy/local/bootstrap.sh as `python -m deploy.local.install [--dev]`; standard library only.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from deploy.local.errors import LocalServerError
from deploy.local.lock import DirectoryLock

ROOT = Path(__file__).resolve().parents[2]
RUN_LOCK = "requirements.lock"
DEV_LOCK = "requirements-dev.lock"

_WAIT_SECONDS = 900.0
_PINNED = re.compile(r"^[A-Za-z0-9._-]+(\[[^]]*\])?==", re.MULTILINE)


class InstallFailed(LocalServerError):
    """The packages could not be installed. The message carries the end of what pip said."""

    reason = "install_failed"


class Environment:
    """The virtual environment of the project below `root`.

    A stamp inside it names the lock files it was filled from. It is removed before anything is changed and
    written last, so an environment without one is unfinished and made anew.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self.directory = root / ".venv"
        self._stamp = self.directory / "installed.json"

    @property
    def python(self) -> Path:
        """The interpreter inside."""
        return self.directory / "bin" / "python"

    def provide(self, dev: bool) -> bool:
        """Bring the environment up to the lock files; return whether anything was done.

        dev: with the tools for tests and lints, whose lock file holds the other one's packages as well.
        """
        if self.fresh(dev):
            return False
        (self._root / "build").mkdir(exist_ok=True)
        with DirectoryLock(self._root / "build", "install.lock", wait_seconds=_WAIT_SECONDS):
            if self.fresh(dev):
                return False
            installed = self._read_stamp()
            if not installed or not self._starts():
                self._make_anew()
            self._stamp.unlink(missing_ok=True)
            # An environment with the tools keeps them when only `make run` asks.
            dev = dev or DEV_LOCK in installed
            self._install(DEV_LOCK if dev else RUN_LOCK)
            self._stamp.write_text(json.dumps(self._wanted(dev)))
        return True

    def _wanted(self, dev: bool) -> dict[str, str]:
        names = (RUN_LOCK, DEV_LOCK) if dev else (RUN_LOCK,)
        return {name: hashlib.sha256((self._root / name).read_bytes()).hexdigest() for name in names}

    def fresh(self, dev: bool) -> bool:
        """Whether it runs and was filled from the present lock files."""
        return self._wanted(dev).items() <= self._read_stamp().items() and self._starts()

    def _read_stamp(self) -> dict[str, str]:
        try:
            stamp = json.loads(self._stamp.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _starts(self) -> bool:
        """Whether its interpreter still runs: an upgrade of the system's Python can take it away."""
        if not self.python.exists():
            return False
        done = subprocess.run([str(self.python), "-c", ""], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode == 0

    def _make_anew(self) -> None:
        if self.directory.exists():
            print("kenari: .venv is unfinished or broken, making it anew")
            shutil.rmtree(self.directory)
        print(f"kenari: making .venv with Python {sys.version.split()[0]}", flush=True)
        venv.create(self.directory, with_pip=True, symlinks=True)

    def _install(self, lock: str) -> None:
        path = self._root / lock
        total = len(_PINNED.findall(path.read_text()))
        print(f"kenari: installing up to {total} packages from {lock} (once)", flush=True)
        pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        command = [*pip, "--progress-bar=off", "--require-hashes", "--requirement", str(path)]
        code, said = _run_with_progress(command, total)
        if code != 0:
            tail = "\n".join(f"    {line}" for line in said[-12:])
            raise InstallFailed(f"pip could not install {lock}; run the same command again to retry. It said:\n{tail}")


def _run_with_progress(command: Sequence[str], total: int) -> tuple[int, list[str]]:
    """Run pip; say which package it is at, on one line where a terminal listens. Return exit code and output."""
    said: list[str] = []
    count = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.rstrip())
            if line.startswith("Collecting "):
                count += 1
                _show(f"  {count:3d}/{total} {line.split()[1].split('==')[0]}", last=False)
            elif line.startswith("Installing collected packages"):
                _show(f"  unpacking {count} packages", last=True)
    return process.returncode, said


def _show(text: str, last: bool) -> None:
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="\n" if last else "", flush=True)
    elif last or text.split("/")[0].strip().endswith("0"):
        # A log needs no line per package.
        print(text, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Provide the environment; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.install", description=__doc__)
    parser.add_argument("--dev", action="store_true", help="with the tools for tests and lints")
    parser.add_argument("--check", action="store_true", help="only tell by the exit code whether all is in place")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    environment = Environment()
    if options.check:
        return 0 if environment.fresh(options.dev) else 1
    try:
        if environment.provide(options.dev):
            print(f"kenari: .venv is ready after {time.monotonic() - started:.0f} s", flush=True)
    except LocalServerError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nkenari: stopped; the next start makes .venv anew", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
