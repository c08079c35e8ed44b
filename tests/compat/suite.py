"""The suite of real clients on disk: finds it and runs it on one face of the gateway.
Called by tests.compat.__main__.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.compat import exclusions
from tests.compat.faces import Face
from tests.compat.gateway import Gateway
from tests.compat.tally import Tally
from tests.support.tools import ROOT

SETTING = "KENARI_COMPAT_SUITE"
# A check-out next to this one; the pieces keep the tree free of other places' paths.
_BESIDE = ("shared", "compat")


class SuiteMissing(Exception):
    """There is no suite where it is looked for; the text says where that is."""

    reason = "suite_missing"


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite's folder."""

    directory: Path

    @property
    def program(self) -> Path:
        return self.directory / "run.sh"

    @property
    def provider(self) -> Path:
        return self.directory / "scripted_upstream.py"

    def run(self, gateway: Gateway, face: Face, only: str, tally: Tally) -> None:
        """Run its clients (those in `only`, a list with commas, when it is not empty) and show what it prints."""
        command = ["bash", str(self.program), gateway.base_url, gateway.key, face.model]
        if only:
            command += ["--only", only]
        before = tally.passed
        with subprocess.Popen(
            command,
            env={**os.environ, **settings(face)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as running:
            assert running.stdout is not None
            try:
                for line in running.stdout:
                    print(f"{face.name}: {line}", end="", flush=True)
                    tally.take(face.name, line)
            except BaseException:
                # Whatever stops this run stops the clients too.
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGTERM)
                raise
        tally.end(face.name, running.returncode, before)


def find(named: str) -> Suite:
    """The suite in this folder, or, without a name, where the setting or else the default says.

    Raises SuiteMissing.
    """
    directory = Path(named or os.environ.get(SETTING) or ROOT.parent.joinpath(*_BESIDE))
    # Paths count from the project's root, as make's do.
    suite = Suite(ROOT / directory)
    for needed in (suite.program, suite.provider):
        if not needed.is_file():
            raise SuiteMissing(f"no client suite: {needed} is not there; say where it is with SUITE=... or {SETTING}")
    return suite


def settings(face: Face) -> Mapping[str, str]:
    """The variables that tell the suite what to use and what to leave out."""
    return {
        "COMPAT_FAULT_MODEL": face.fault_model,
        "COMPAT_SMALL_MODEL": face.small_model,
        "COMPAT_SKIP": ",".join(exclusion.checks for exclusion in exclusions.on(face)),
    }
