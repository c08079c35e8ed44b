"""The parts of `make run` that need no server: ports, secrets, settings, what is printed, the trace as a tree.
Run by pytest.
"""

import importlib
import json
import os
import shlex
import stat
from pathlib import Path
from typing import Any

import pytest

from deploy.local import trace_tree, wiring
from deploy.local.addresses import DEFAULTS, HTTP, Ports, WrongPort
from deploy.local.greeting import curl_line, greeting
from deploy.local.secret_files import secret_once, write_private
from deploy.local.wiring import NotStarted, State
from services.__main__ import NAMES


def _read_settings(service: str) -> Any:
    return importlib.import_module(f"services.{service}.app").read_settings()


def _wired(tmp_path: Path, ports: Ports) -> dict[str, str]:
    dsns = {name: f"postgresql://{name}:secret@127.0.0.1:1/{name}" for name in wiring.WITH_DATABASE}
    return wiring.settings(State(tmp_path), ports, dsns, "redis://127.0.0.1:2/0", "127.0.0.1:3", {})


def test_a_port_of_the_environment_replaces_the_default() -> None:
    ports = Ports.read({HTTP: "9999"})
    assert ports.base_url == "http://127.0.0.1:9999"
    assert ports["LEDGER_RPC__PORT"] == DEFAULTS["LEDGER_RPC__PORT"]


@pytest.mark.parametrize("value", ["http", "0", "70000", "-1", "80.5"])
def test_what_is_no_port_is_refused_by_name(value: str) -> None:
    with pytest.raises(WrongPort, match=f"{HTTP}={value}"):
        Ports.read({HTTP: value})


def test_two_parts_on_one_port_are_refused_by_name() -> None:
    with pytest.raises(WrongPort, match=r"LEDGER_RPC__PORT and EDGE_HTTP__PORT are both 8080"):
        Ports.read({"LEDGER_RPC__PORT": "8080"})


def test_a_secret_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "one"
    first = secret_once(path)
    assert secret_once(path) == first
    assert len(first) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_private_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_private(path, "a long first text")
    write_private(path, "second")
    assert path.read_text() == "second"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("service", NAMES)
def test_every_service_reads_what_it_is_told(service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = Ports({setting: 20_000 + number for number, setting in enumerate(DEFAULTS)})
    for name, value in _wired(tmp_path, ports).items():
        monkeypatch.setenv(name, value)
    settings = _read_settings(service)
    assert settings.ops.port == ports[f"{service.upper()}_OPS__PORT"]
    assert settings.kafka.bootstrap == "127.0.0.1:3"
    assert settings.telemetry.trace_file == tmp_path / "traces.jsonl"
    for peer in wiring.WITH_RPC:
        address = getattr(settings, f"{peer}_address", None)
        assert address in (None, ports.rpc(peer))


@pytest.mark.parametrize("service", NAMES)
def test_the_default_ports_are_those_of_the_services(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in _wired(tmp_path, Ports(DEFAULTS)).items():
        if name not in DEFAULTS:
            monkeypatch.setenv(name, value)
    settings = _read_settings(service)
    for setting, port in Ports(DEFAULTS).of_service(service).items():
        part = setting.split("_")[1].lower()
        assert getattr(settings, part).port == port


def test_settings_of_the_run_are_private_and_come_back(tmp_path: Path) -> None:
    state = State(tmp_path)
    with pytest.raises(NotStarted, match="make run"):
        wiring.load(state)
    wired = _wired(tmp_path, Ports(DEFAULTS))
    wiring.save(state, wired)
    assert wiring.load(state) == wired
    assert stat.S_IMODE(state.settings.stat().st_mode) == 0o600


def test_a_catalogue_named_by_the_user_counts_from_the_checkout(tmp_path: Path) -> None:
    wired = wiring.settings(State(tmp_path), Ports(DEFAULTS), {}, "", "", {"ROUTER_CATALOG_FILE": "my.yaml"})
    assert wired["ROUTER_CATALOG_FILE"] == str(wiring.ROOT / "my.yaml")


def test_the_printed_lines_are_whole_commands(tmp_path: Path) -> None:
    text = greeting(State(tmp_path), Ports(DEFAULTS), "kn-key", "127.0.0.1:3", 1.0)
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("curl ")]
    assert len(lines) == 3
    bodies = [json.loads(shlex.split(line)[-1]) for line in lines]
    assert [body["model"] for body in bodies] == ["sim-1:free", "sim-1", "sim-1"]
    assert [bool(body.get("stream")) for body in bodies] == [False, False, True]
    assert all("Authorization: Bearer kn-key" in shlex.split(line) for line in lines)
    assert "-iN" in shlex.split(curl_line("http://x", "k", "m", stream=True))


def _span(span: str, parent: str | None, name: str, start_ms: int, request: str | None = None) -> str:
    row = {
        "trace_id": "t1",
        "span_id": span,
        "parent_id": parent,
        "service": "edge",
        "name": name,
        "start_ns": start_ms * 1_000_000,
        "end_ns": (start_ms + 5) * 1_000_000,
        "status": "unset",
        "attributes": {"kenari.request_id": request} if request else {},
    }
    return json.dumps(row)


def test_a_trace_is_a_tree_in_order_of_time(tmp_path: Path) -> None:
    file = tmp_path / "traces.jsonl"
    other = _span("x", None, "other", 0, "another request").replace("t1", "t2")
    lines = [
        _span("c", "b", "grandchild", 3),
        '{"half a line',
        _span("d", "a", "second child", 4),
        _span("b", "a", "first child", 2),
        _span("a", "not ours", "root", 1, "r1"),
        other,
    ]
    file.write_text("\n".join(lines) + "\n")
    shown = trace_tree.render(trace_tree.read_trace([file, tmp_path / "missing"], "r1"))
    assert [line.split("ms")[-1].rstrip() for line in shown] == [
        "  edge: root",
        "    edge: first child",
        "      edge: grandchild",
        "    edge: second child",
    ]


def test_a_request_without_spans_has_no_tree(tmp_path: Path) -> None:
    assert trace_tree.render(trace_tree.read_trace([tmp_path / "missing"], "r1")) == []


def test_children_get_the_settings_of_the_run_over_those_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("KENARI_KEY_HASH_SECRET", "from elsewhere")
    environment = wiring.process_environment({"KENARI_KEY_HASH_SECRET": "of this run"})
    assert environment["OPENAI_API_KEY"] == "sk-mine"
    assert environment["KENARI_KEY_HASH_SECRET"] == "of this run"
    assert environment["PATH"] == os.environ["PATH"]
