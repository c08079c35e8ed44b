"""`make run` as a newcomer meets it: the printed lines work, data survive, broken runs heal, stopping is complete.
Run by pytest with real stores; each test starts the launcher as a process of its own.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc

from deploy.local import demo
from deploy.local.addresses import HTTP, Ports
from deploy.local.wiring import ROOT, State
from libs.core.ids import uuid7_hex
from tests.deploy.runs import Run, processes_below


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A place for the data of several runs in a row, closed to other users as a checkout in a home directory is."""
    path = Path(tempfile.mkdtemp(prefix="kenari-run-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


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
    assert processes_below(home) == {}


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
    assert processes_below(home) == {}


@pytest.mark.timeout(180)
def test_one_process_per_service_ends_as_a_whole_when_one_dies(
    home: Path, ports: dict[str, str], runs: list[Run]
) -> None:
    run = Run(home, ports, PROCESSES="1")
    runs.append(run)
    run.ready()
    assert '"model":"sim-1"' in _curl(run.curls()[1])
    services = {command.split()[-1]: pid for pid, command in processes_below(home).items() if "-m services" in command}
    assert sorted(services) == ["accounts", "edge", "ledger", "limiter", "router"]

    os.kill(services["limiter"], signal.SIGKILL)
    assert run.ends() == 1
    assert "kenari: limiter ended by itself" in run.output
    assert processes_below(home) == {}


@pytest.mark.timeout(180)
def test_what_the_broker_forgot_is_there_again_all_models_and_a_charge(
    home: Path, ports: dict[str, str], runs: list[Run], tmp_path: Path
) -> None:
    more = tmp_path / "catalog.yaml"
    one_more = _SIM_1.search(text := (ROOT / "deploy/catalog.yaml").read_text())
    assert one_more
    more.write_text(text.replace(one_more[0], one_more[0] + one_more[0].replace("sim-1", "sim-2")))
    first = Run(home, ports, PROCESSES="1", ROUTER_CATALOG_FILE=str(more))
    runs.append(first)
    assert _models(ports, first.ready().key) == {"sim-1", "sim-1:free", "sim-2"}

    before = _balance(ports, first.key)
    with subprocess.Popen([*shlex.split(first.curls()[2]), "-sSN"], stdout=subprocess.PIPE, text=True) as stream:
        assert stream.stdout is not None
        assert any(line.startswith("data:") for line in stream.stdout)
        (ledger,) = (pid for pid, command in processes_below(home).items() if command.endswith("-m services ledger"))
        os.kill(ledger, signal.SIGKILL)
        stream.stdout.read()
    assert first.ends() == 1

    second = Run(home, ports)
    runs.append(second)
    assert _models(ports, second.ready().key) == {"sim-1", "sim-1:free"}
    deadline = time.monotonic() + 20
    while _balance(ports, second.key) == before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _balance(ports, second.key) != before


# The whole entry of the first model.
_SIM_1 = re.compile(r"  - id: sim-1\n(?:    .*\n)+")


def _models(ports: dict[str, str], key: str) -> set[str]:
    answer = _curl(f"curl http://127.0.0.1:{ports[HTTP]}/v1/models -H 'Authorization: Bearer {key}'")
    return {model["id"] for model in json.loads(answer)["data"]}
