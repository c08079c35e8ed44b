"""What `make run` and `make show` refuse, and in which words.
Run by pytest; nothing but the launcher is started.
"""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local import launcher, show
from deploy.local.addresses import HTTP
from deploy.local.wiring import ROOT
from tests.deploy.runs import Run, processes_below


def test_a_taken_port_is_one_line_that_names_it(tmp_path: Path, ports: dict[str, str], runs: list[Run]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        run = Run(tmp_path, {**ports, HTTP: taken})
        runs.append(run)
        assert run.ends() == 1
    last = run.output.splitlines()[-1]
    assert taken in last
    assert HTTP in last
    assert processes_below(tmp_path) == {}


def test_a_catalogue_with_mistakes_is_refused_before_anything_starts(
    tmp_path: Path, ports: dict[str, str], runs: list[Run]
) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("providers:\n  - id: sim\n    format: simulatd\n")
    run = Run(tmp_path / "run", ports, ROUTER_CATALOG_FILE=str(catalog))
    runs.append(run)
    assert run.ends() == 1
    assert [line.split(" must ")[0] for line in run.output.splitlines()] == [
        f"kenari: {catalog}:1: 'models'",
        f"kenari: {catalog}:3: 'format'",
    ]
    assert not (tmp_path / "run" / "postgres").exists()


def test_a_wrong_setting_is_named_before_anything_starts(
    tmp_path: Path, ports: dict[str, str], runs: list[Run]
) -> None:
    run = Run(tmp_path, ports, EDGE_WAITS__KEEPALIVE_S="soon", KENARI_TELEMETRY__LOG_LEVEL="loud")
    runs.append(run)
    assert run.ends() == 1
    assert sorted(line.split(":")[1] for line in run.output.splitlines()) == [
        " EDGE_WAITS__KEEPALIVE_S",
        " KENARI_TELEMETRY__LOG_LEVEL",
    ]


def test_a_place_that_cannot_be_written_is_one_line_that_names_it(
    tmp_path: Path, ports: dict[str, str], runs: list[Run]
) -> None:
    (tmp_path / "file").touch()
    run = Run(tmp_path / "file" / "run", ports)
    runs.append(run)
    assert run.ends() == 1
    assert run.output == f"kenari: {tmp_path}/file/run: Not a directory"


def test_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: launcher.Launcher) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(launcher.Launcher, "run", run)
    assert launcher.main(["--directory", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"kenari: {tmp_path}: No space left on device\n"


def test_two_runs_do_not_share_a_directory(tmp_path: Path, ports: dict[str, str], runs: list[Run]) -> None:
    held = subprocess.Popen(
        [sys.executable, "-c", _HOLD_LOCK, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    try:
        assert held.stdout is not None
        held.stdout.readline()
        run = Run(tmp_path, ports)
        runs.append(run)
        assert run.ends() == 1
        assert f"in use by process {held.pid}" in run.output
    finally:
        held.kill()
        held.wait()


_HOLD_LOCK = """
import sys
from pathlib import Path
from deploy.local.lock import DirectoryLock
with DirectoryLock(Path(sys.argv[1]), "run.lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("given", ["nonsense", "a" * 32])
def test_show_says_what_it_needs(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main([given]) == 1
    said = capsys.readouterr().err
    assert "make show ID=" in said
    assert len(said.splitlines()) == 1
