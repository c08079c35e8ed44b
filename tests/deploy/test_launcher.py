"""`make run` as a newcomer meets it: the printed lines work, data survive, broken runs heal, stopping is complete.
Run by pytest with real stores; each test starts the launcher as a process of its own.
"""

import asyncio
import errno
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc

from deploy.local import demo, launcher, show
from deploy.local.addresses import DEFAULTS, HTTP, Ports
from deploy.local.ports import pick_free_port
from deploy.local.wiring import ROOT, State
from libs.core.ids import uuid7_hex

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


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A place for the data of several runs in a row, closed to other users as a checkout in a home directory is."""
    path = Path(tempfile.mkdtemp(prefix="kenari-run-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    return {setting: str(pick_free_port()) for setting in DEFAULTS}


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    """Put a run in here, and it is over when the test is."""
    started: list[Run] = []
    yield started
    for run in started:
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGTERM)
            run.process.wait(40)


def _processes_below(directory: Path) -> dict[int, str]:
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


def _curl(line: str) -> str:
    command = shlex.split(line)
    done = subprocess.run([*command, "-sS"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _balance(ports: dict[str, str], key: str) -> str:
    return _curl(f"curl http://127.0.0.1:{ports[HTTP]}/v1/account/balance -H 'Authorization: Bearer {key}'")


def _ask_show(run: Run, request_id: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "deploy.local.show", "--directory", str(run.directory), request_id],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def _show(run: Run, request_id: str) -> str:
    done = _ask_show(run, request_id)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _sections(report: str) -> dict[str, str]:
    return dict(part.split("\n", 1) for part in report.split("\n\n")[1:])


@pytest.mark.timeout(180)
def test_a_newcomer_gets_answers_and_finds_their_traces(home: Path, ports: dict[str, str], runs: list[Run]) -> None:
    run = Run(home, ports)
    runs.append(run)
    run.ready()

    free, paid, streamed = [_curl(line) for line in run.curls()]
    assert '"model":"sim-1:free"' in free
    assert " 200 OK" in paid
    assert "data: [DONE]" in streamed

    found = re.search(r"x-request-id: ([0-9a-f]{32})", paid)
    assert found
    wanted = {"Hold": "settled", "Usage row": "completion tokens = Rp", "Transfers": "Rp"}
    wanted |= {"Kafka events": "ledger.usage_settled.v1", "Trace": "ledger: "}
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        sections = _sections(_show(run, found[1]))
        if all(text in sections[title] for title, text in wanted.items()):
            break
        time.sleep(0.5)
    for title, text in wanted.items():
        assert text in sections[title]
    for event in ("edge.usage_recorded.v1", "edge.request_finished.v1", "edge.attempt_finished.v1"):
        assert event in sections["Kafka events"]

    unknown = _ask_show(run, uuid7_hex())
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (1, 1)
    assert "nothing is known of request" in unknown.stderr

    # `timeout make run` signals the group and make repeats it: the same wish, told twice.
    run.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    run.process.send_signal(signal.SIGTERM)
    assert run.ends() == 0, run.output
    assert run.output.endswith("kenari: stopped")
    assert _processes_below(home) == {}


@pytest.mark.timeout(180)
def test_a_killed_run_heals_and_nothing_is_lost(home: Path, ports: dict[str, str], runs: list[Run]) -> None:
    first = Run(home, ports)
    runs.append(first)
    key, before = first.ready().key, _balance(ports, first.key)
    first.process.kill()
    first.process.wait()

    second = Run(home, ports)
    runs.append(second)
    assert second.ready().key == key
    assert _balance(ports, key) == before
    assert "data: [DONE]" in _curl(second.curls()[2])

    # A key that was revoked in between is replaced, and the next start prints the new one.
    state, known = State(home), Ports.read(ports)
    assert asyncio.run(demo.provide(state, known)) == key
    _revoke_all(known.rpc("accounts"))
    fresh = asyncio.run(demo.provide(state, known))
    assert fresh != key
    assert asyncio.run(demo.provide(state, known)) == fresh
    assert _balance(ports, fresh).startswith("{")


def _revoke_all(accounts: str) -> None:
    with grpc.insecure_channel(accounts) as channel:
        stub = accounts_pb2_grpc.AccountsStub(channel)
        keys = stub.ListKeys(accounts_pb2.ListKeysRequest(account_id=demo.ACCOUNT), timeout=10).keys
        for key in keys:
            stub.RevokeKey(accounts_pb2.RevokeKeyRequest(key_id=key.key_id), timeout=10)


@pytest.mark.timeout(120)
def test_a_start_can_be_interrupted(home: Path, ports: dict[str, str], runs: list[Run]) -> None:
    run = Run(home, ports)
    runs.append(run)
    deadline = time.monotonic() + 60
    while "databases" not in run.output and time.monotonic() < deadline:
        time.sleep(0.05)
    run.process.send_signal(signal.SIGINT)
    assert run.ends() == 0, run.output
    assert "Ready after" not in run.output
    assert _processes_below(home) == {}


@pytest.mark.timeout(180)
def test_one_process_per_service_ends_as_a_whole_when_one_dies(
    home: Path, ports: dict[str, str], runs: list[Run]
) -> None:
    run = Run(home, ports, PROCESSES="1")
    runs.append(run)
    run.ready()
    assert '"model":"sim-1"' in _curl(run.curls()[1])
    services = {command.split()[-1]: pid for pid, command in _processes_below(home).items() if "-m services" in command}
    assert sorted(services) == ["accounts", "edge", "ledger", "limiter", "router"]

    os.kill(services["limiter"], signal.SIGKILL)
    assert run.ends() == 1
    assert "kenari: limiter ended by itself" in run.output
    assert _processes_below(home) == {}


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
    assert _processes_below(tmp_path) == {}


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
    run = Run(tmp_path, ports, EDGE_KEEPALIVE_S="soon", KENARI_TELEMETRY__LOG_LEVEL="loud")
    runs.append(run)
    assert run.ends() == 1
    assert sorted(line.split(":")[1] for line in run.output.splitlines()) == [
        " EDGE_KEEPALIVE_S",
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
