"""Installs the peers as pinned beside this file, each into an environment of its own, once.
Called by tests.bench.comparison; run again only when a lock file or Python has changed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.local import DirectoryLock
from tests.bench.load import BenchError

_PINS = Path(__file__).parent
_REQUIREMENTS = _PINS / "litellm" / "requirements.lock"
_NPM_FILES = (_PINS / "portkey" / "package.json", _PINS / "portkey" / "package-lock.json")
_INSTALL_SECONDS = 900


class Peers:
    """Where the peers' programs are. `install` makes them there, or finds that they are."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.litellm = self.directory / "litellm"
        self.portkey = self.directory / "portkey"

    @property
    def litellm_program(self) -> Path:
        return self.litellm / "bin" / "litellm"

    @property
    def portkey_program(self) -> Path:
        return self.portkey / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"

    def install(self) -> None:
        """Raises BenchError naming the missing tool or the command that failed."""
        with DirectoryLock(self.directory):
            self._once(self.litellm, [_REQUIREMENTS], self._install_litellm)
            self._once(self.portkey, _NPM_FILES, self._install_portkey)

    def versions(self) -> dict[str, str]:
        """The pinned version of each peer."""
        pin = next(line for line in _REQUIREMENTS.read_text().splitlines() if "litellm[proxy]==" in line)
        packages = json.loads(_NPM_FILES[1].read_text())["packages"]
        return {
            "litellm": pin.partition("==")[2].split()[0],
            "portkey": packages["node_modules/@portkey-ai/gateway"]["version"],
        }

    def _once(self, place: Path, pins: Sequence[Path], install: Callable[[Path], None]) -> None:
        wanted = hashlib.sha256(sys.version.encode() + b"".join(pin.read_bytes() for pin in pins)).hexdigest()
        stamp = place / "installed"
        if stamp.exists() and stamp.read_text() == wanted:
            return
        print(f"installing {place.name} as pinned into {place} (once, a minute or two)", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        install(place)
        stamp.write_text(wanted)

    def _install_litellm(self, place: Path) -> None:
        _call([sys.executable, "-m", "venv", str(place)], self.directory)
        python = str(place / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        _call([*pip, "-r", str(_REQUIREMENTS)], place)

    def _install_portkey(self, place: Path) -> None:
        for tool in ("node", "npm"):
            if shutil.which(tool) is None:
                raise BenchError(f"{tool} is missing, which Portkey needs: install Node.js 20 or newer with npm")
        place.mkdir(parents=True)
        for file in _NPM_FILES:
            shutil.copy(file, place)
        # Its install scripts patch its own development files; nothing of them is run here.
        _call(["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--loglevel=error"], place)


def _call(command: Sequence[str], directory: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise BenchError(f"`{' '.join(command)}` failed: {words}")
