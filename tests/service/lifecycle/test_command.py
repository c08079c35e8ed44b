"""The command that runs services, as a process: what it prints, how it ends.
Run by pytest; the service is one of its own, whose single part waits as told.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import httpx
import pytest

from deploy.local.ports import pick_free_port
from tests.support.tools import ROOT

# One service whose single part waits for ever, or fails, as told.
APP = """
    import asyncio
    from typing import ClassVar
    from pydantic import SecretStr
    from pydantic_settings import SettingsConfigDict
    import services.__main__ as command
    from libs.core.settings import OpsSettings, RpcSettings, ServiceSettings
    from libs.ops.telemetry import Telemetry
    from libs.rpc.server import RpcServer
    from libs.service.component import Hook
    from libs.service.service import Service

    class Settings(ServiceSettings):
        model_config = SettingsConfigDict(env_prefix="BOOKS_")
        NAME: ClassVar[str] = "books"
        ops: OpsSettings = OpsSettings(port=0)
        rpc: RpcSettings = RpcSettings(port=0)
        dsn: SecretStr = SecretStr("postgresql://u:s3cret@h/d")
        start: str = "fine"

    class app:
        read_settings = Settings.read
        @staticmethod
        def build(settings):
            telemetry = Telemetry("books", settings.telemetry)
            service = Service("books", settings, settings.ops, telemetry)
            async def start():
                print("starting", flush=True)
                if settings.start == "hang":
                    await asyncio.sleep(600)
            async def stop():
                print("stopping", flush=True)
            service.add(Hook(start=start, stop=stop))
            service.add(RpcServer(settings.rpc, telemetry))
            return service

    command.NAMES = ("books",)
    command._module = lambda name: app
    raise SystemExit(command.main())
"""


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KENARI_", "BOOKS_"))}
    return {**kept, "PYTHONPATH": str(ROOT), **variables}


def command(tmp_path: Path, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    script = tmp_path / "app.py"
    script.write_text(textwrap.dedent(APP))
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        cwd=ROOT,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process: "subprocess.Popen[str]", timeout_s: float = 20) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    return process.returncode, out, err


def wait_ready(port: int) -> None:
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/ready", verify=False).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError("not ready")


def test_check_prints_the_settings_without_secrets(tmp_path: Path) -> None:
    code, out, _ = outcome(command(tmp_path, "books", "--check"))
    assert code == 0
    assert json.loads(out)["books"]["rpc"]["port"] == 0
    assert "s3cret" not in out


def test_a_wrong_setting_ends_with_one_line_and_code_2(tmp_path: Path) -> None:
    code, out, err = outcome(command(tmp_path, "books", BOOKS_RPC__PORT="many"))
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("kenari: BOOKS_RPC__PORT: ")


@pytest.mark.parametrize("kind", ["RPC", "OPS"])
def test_a_taken_port_ends_with_one_line_and_code_2(tmp_path: Path, kind: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = outcome(command(tmp_path, "books", **{f"BOOKS_{kind}__PORT": str(port)}))
    assert code == 2
    assert ("stopping" in out) == (kind == "RPC")
    plain = [line for line in err.splitlines() if not line.startswith("{")]
    assert len(plain) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in plain[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_parts_and_ends_with_code_0(tmp_path: Path, number: signal.Signals) -> None:
    port = pick_free_port()
    process = command(tmp_path, "books", BOOKS_OPS__PORT=str(port))
    wait_ready(port)
    process.send_signal(number)
    code, out, err = outcome(process)
    assert (code, out.split()) == (0, ["starting", "stopping"])
    assert all(json.loads(line) for line in err.splitlines())


def test_a_signal_ends_a_start_that_waits_for_something(tmp_path: Path) -> None:
    process = command(tmp_path, "books", BOOKS_START="hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "starting\n"
    process.send_signal(signal.SIGTERM)
    code, out, err = outcome(process)
    assert (code, out.split()) == (0, ["stopping"])
    assert "Traceback" not in err
