"""docker-compose.yml is valid to Compose itself and agrees with the code: settings, ports, topics, databases, files.
No engine is needed: nothing is started here.
"""

import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from deploy.grafana.build import FOLDER
from deploy.grafana.layout import DATASOURCE
from deploy.local.wiring import WITH_DATABASE
from services.__main__ import NAMES
from tests.deploy.compose import FILE, OURS, ROOT, compose, resolved, settings, unread

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="Compose's program is a wheel for Linux x86-64"
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return resolved()


def environment(document: dict[str, Any], name: str) -> dict[str, str]:
    found: dict[str, str] = document["services"][name]["environment"]
    return found


def shipped(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_compose_finds_no_fault() -> None:
    compose("config", "-q")


def test_compose_would_find_a_fault(tmp_path: Path) -> None:
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text("services: {edge: {imagee: kenari}}")
    with pytest.raises(AssertionError, match="imagee"):
        compose("config", "-q", file=wrong)


def test_every_service_of_the_code_runs_and_waits_for_schema_and_topics(document: dict[str, Any]) -> None:
    assert set(OURS) == set(NAMES)
    for name in NAMES:
        service = document["services"][name]
        assert service["command"] == ["services", name]
        assert {job: wait["condition"] for job, wait in service["depends_on"].items()} == {
            "migrate": "service_completed_successfully",
            "topics": "service_completed_successfully",
        }


def test_every_mounted_file_exists(document: dict[str, Any]) -> None:
    mounts = [mount for service in document["services"].values() for mount in service.get("volumes", ())]
    sources = [mount["source"] for mount in mounts if mount["type"] == "bind"]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("name", OURS)
def test_the_settings_of_a_service_can_be_read(document: dict[str, Any], name: str) -> None:
    settings(document, name)
    assert unread(document, name) == set()


@pytest.mark.parametrize("name", OURS)
def test_ports_are_reachable_from_other_containers(document: dict[str, Any], name: str) -> None:
    read: Any = settings(document, name)
    listening = [read.ops, read.http if name == "edge" else read.rpc]
    assert [part.host for part in listening] == ["0.0.0.0", "0.0.0.0"]
    (check,) = re.findall(
        r"http://127\.0\.0\.1:(\d+)/ready", " ".join(document["services"][name]["healthcheck"]["test"])
    )
    assert int(check) == read.ops.port


def test_peers_are_asked_where_they_listen(document: dict[str, Any]) -> None:
    every: dict[str, Any] = {name: settings(document, name) for name in OURS}
    ports = {name: read.rpc.port for name, read in every.items() if name != "edge"}
    asked = {
        (peer, getattr(read, f"{peer}_address"))
        for read in every.values()
        for peer in ports
        if hasattr(read, f"{peer}_address")
    }
    assert asked == {(peer, f"{peer}:{port}") for peer, port in ports.items()}


def test_prometheus_scrapes_every_ops_port(document: dict[str, Any]) -> None:
    (job,) = shipped("deploy/prometheus/prometheus.yml")["scrape_configs"]
    targets = {static["labels"]["service"]: static["targets"] for static in job["static_configs"]}
    read: dict[str, Any] = {name: settings(document, name) for name in OURS}
    assert targets == {name: [f"{name}:{read[name].ops.port}"] for name in OURS}


def test_only_loopback_is_published(document: dict[str, Any]) -> None:
    ports = [port for service in document["services"].values() for port in service.get("ports", ())]
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}
    edge: Any = settings(document, "edge")
    assert [port["target"] for port in document["services"]["edge"]["ports"]] == [edge.http.port]


def test_topics_are_made_by_the_job_and_by_nothing_else(document: dict[str, Any]) -> None:
    kafka = environment(document, "kafka")
    assert kafka["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"
    module, command, option, bootstrap = document["services"]["topics"]["command"]
    assert (module, command, option) == ("libs.kafka.topics", "apply", "--bootstrap")
    assert kafka["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{bootstrap}"
    assert {settings(document, name).kafka.bootstrap for name in OURS} == {bootstrap}
    # The command line is one that the code takes: it gets as far as calling the broker.
    done = subprocess.run(
        [sys.executable, "-m", module, command, option, "127.0.0.1:1"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("topics: ")


def test_every_database_is_made_migrated_and_used_by_its_service_only(document: dict[str, Any]) -> None:
    script = (ROOT / "deploy/postgres/databases.sh").read_text()
    (made,) = re.findall(r"^for name in (.+); do$", script, re.MULTILINE)
    assert set(made.split()) == set(WITH_DATABASE)
    assert document["services"]["migrate"]["command"] == ["libs.db.migrate", "all"]
    migrated = environment(document, "migrate")
    assert set(migrated) == {f"{name.upper()}_DATABASE__DSN" for name in WITH_DATABASE}
    for variable, dsn in migrated.items():
        name = variable.partition("_")[0].lower()
        address = urlsplit(dsn)
        assert (address.hostname, address.username, address.path) == ("postgres", name, f"/{name}")
        assert address.password == environment(document, "postgres")["POSTGRES_PASSWORD"]
        assert environment(document, name)[variable] == dsn


def test_spooled_events_survive_a_container(document: dict[str, Any]) -> None:
    mounts = {mount["target"] for mount in document["services"]["edge"]["volumes"]}
    assert str(settings(document, "edge").kafka.spool_dir) in mounts


def test_grafana_finds_its_dashboards_and_its_stores(document: dict[str, Any]) -> None:
    mounts = {mount["target"]: mount["source"] for mount in document["services"]["grafana"]["volumes"]}
    (provider,) = shipped("deploy/grafana/provisioning/dashboards/dashboards.yaml")["providers"]
    assert mounts[provider["options"]["path"]] == str(ROOT / FOLDER)
    sources = shipped("deploy/grafana/provisioning/datasources/datasources.yaml")["datasources"]
    assert DATASOURCE["uid"] in {source["uid"] for source in sources}
    assert {urlsplit(source["url"]).hostname for source in sources} <= document["services"].keys()


def test_spans_go_to_the_collector_and_on_to_the_store(document: dict[str, Any]) -> None:
    collector = shipped("deploy/otel-collector/config.yaml")
    port = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]
    assert {settings(document, name).telemetry.otlp_endpoint for name in OURS} == {f"http://otel-collector:{port}"}
    (exporter,) = collector["exporters"].values()
    assert exporter["endpoint"].partition(":")[0] in document["services"]
    pipeline = collector["service"]["pipelines"]["traces"]
    for kind in ("receivers", "processors", "exporters"):
        assert set(pipeline[kind]) == set(collector[kind])


def test_containers_have_longer_to_stop_than_services_take(document: dict[str, Any]) -> None:
    for name in OURS:
        assert document["services"][name]["stop_grace_period"] == "30s"
        assert settings(document, name).shutdown_grace_s < 30


def test_secrets_come_from_outside_and_their_defaults_say_that_they_are_for_a_laptop() -> None:
    secret = re.compile(r"SECRET|PASSWORD|API_KEY|DSN")
    given = yaml.safe_load(FILE.read_text())["services"]
    values = {
        (variable, value)
        for service in given.values()
        for variable, value in service.get("environment", {}).items()
        if secret.search(variable)
    }
    assert len(values) >= 6
    for variable, value in values:
        defaults = re.findall(r"\$\{[A-Z_]+:-([^}]*)\}", value)
        assert defaults, f"{variable} is written down"
        assert all(default in ("", "kenari") or default.startswith("laptop-only-") for default in defaults)


def test_what_the_environment_says_wins() -> None:
    given = {"KENARI_KEY_HASH_SECRET": "x" * 40, "POSTGRES_PASSWORD": "from-outside", "OPENAI_API_KEY": "sk-outside"}
    other = resolved(given)
    assert {environment(other, name)["KENARI_KEY_HASH_SECRET"] for name in ("edge", "accounts")} == {"x" * 40}
    assert "from-outside" in environment(other, "ledger")["LEDGER_DATABASE__DSN"]
    assert environment(other, "router")["OPENAI_API_KEY"] == "sk-outside"
