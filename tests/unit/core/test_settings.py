"""Settings from the environment: which variable wins, what a wrong one says, what nobody gets to see.
Run by pytest; no servers needed.
"""

import json
import os
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import SecretStr
from pydantic_settings import SettingsConfigDict

from libs.core.errors import ConfigError
from libs.core.settings import DatabaseSettings, OpsSettings, Part, RpcSettings, ServiceSettings


class StoreSettings(Part):
    url: SecretStr = SecretStr("redis://:hidden@127.0.0.1")
    connections: int = 8


class Limits(Part):
    new: StoreSettings = StoreSettings(connections=1)
    most: int = 3


class BookSettings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="BOOKS_")
    NAME: ClassVar[str] = "books"

    rpc: RpcSettings = RpcSettings(port=7104)
    ops: OpsSettings = OpsSettings(port=7204)
    store: StoreSettings = StoreSettings()
    limits: Limits = Limits()
    database: DatabaseSettings
    peers: tuple[str, ...] = ()
    mirror: str = ""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("KENARI_", "BOOKS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BOOKS_DATABASE__DSN", "postgresql://books:s3cret@db:5432/books")


def test_the_service_prefix_wins_over_the_shared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENARI_KAFKA__BOOTSTRAP", "shared:9092")
    assert BookSettings.read().kafka.bootstrap == "shared:9092"
    monkeypatch.setenv("BOOKS_KAFKA__BOOTSTRAP", "own:9092")
    assert BookSettings.read().kafka.bootstrap == "own:9092"


def test_one_group_may_come_from_both_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENARI_KAFKA__BOOTSTRAP", "shared:9092")
    monkeypatch.setenv("BOOKS_KAFKA__SESSION_TIMEOUT_MS", "6000")
    kafka = BookSettings.read().kafka
    assert (kafka.bootstrap, kafka.session_timeout_ms) == ("shared:9092", 6000)


def test_one_field_of_a_group_keeps_the_defaults_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_OPS__HOST", "0.0.0.0")
    monkeypatch.setenv("BOOKS_STORE__CONNECTIONS", "2")
    monkeypatch.setenv("BOOKS_LIMITS__NEW__CONNECTIONS", "5")
    settings = BookSettings.read()
    assert settings.ops == OpsSettings(host="0.0.0.0", port=7204)
    assert settings.store.url.get_secret_value() == "redis://:hidden@127.0.0.1"
    assert (settings.limits.new.connections, settings.limits.most) == (5, 3)


def test_what_code_passes_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_OPS__PORT", "1")
    assert BookSettings.read(ops=OpsSettings(port=2)).ops.port == 2


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_TELEMETRY__TRACE_FILE", "")
    monkeypatch.setenv("BOOKS_KAFKA__BOOTSTRAP", "")
    monkeypatch.setenv("KENARI_KAFKA__BOOTSTRAP", "shared:9092")
    settings = BookSettings.read()
    assert settings.telemetry.trace_file is None
    assert settings.kafka.bootstrap == "shared:9092"


def test_each_wrong_variable_gets_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOKS_DATABASE__DSN")
    monkeypatch.setenv("BOOKS_OPS__PORT", "70000")
    monkeypatch.setenv("KENARI_KAFKA__SESSION_TIMEOUT_MS", "soon")
    monkeypatch.setenv("BOOKS_KAFKA__BOOTSTRAPP", "typo:1")
    monkeypatch.setenv("KENARI_TELEMETRY__LOG_LEVEL", "loud")
    with pytest.raises(ConfigError) as failed:
        BookSettings.read()
    named = sorted(line.split(":")[0] for line in str(failed.value).splitlines())
    assert named == [
        "BOOKS_DATABASE",
        "BOOKS_KAFKA__BOOTSTRAPP",
        "BOOKS_OPS__PORT",
        "KENARI_KAFKA__SESSION_TIMEOUT_MS",
        "KENARI_TELEMETRY__LOG_LEVEL",
    ]


@pytest.mark.parametrize("variable", ["BOOKS_KAFKA", "KENARI_PEERS"])
def test_a_group_that_is_not_json_is_one_line_without_its_value(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "{s3cret")
    with pytest.raises(ConfigError) as failed:
        BookSettings.read()
    assert variable.split("_")[1].lower() in str(failed.value)
    assert "\n" not in str(failed.value)
    assert "s3cret" not in str(failed.value)


def test_a_wrong_secret_is_not_repeated_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_DATABASE__POOL_MAX", "s3cret")
    with pytest.raises(ConfigError) as failed:
        BookSettings.read()
    assert "s3cret" not in str(failed.value)
    assert "s3cret" not in str(failed.value.__cause__)


def test_masked_settings_show_no_secret_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKS_MIRROR", "https://reader:s3cret@mirror/path")
    monkeypatch.setenv("BOOKS_PEERS", '["redis://:s3cret@a:1", "plain:2"]')
    masked = BookSettings.read().masked()
    text = json.dumps(masked)
    assert "s3cret" not in text
    assert "hidden" not in text
    assert masked["mirror"] == "https://reader:**********@mirror/path"
    assert masked["peers"] == ["redis://:**********@a:1", "plain:2"]
    assert masked["kafka"]["bootstrap"] == "127.0.0.1:9092"


def test_settings_cannot_be_changed_after_reading() -> None:
    settings = BookSettings.read()
    with pytest.raises(ValueError, match="frozen"):
        settings.kafka.bootstrap = "elsewhere:1"  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        settings.shutdown_grace_s = 1  # type: ignore[misc]


def test_log_levels_are_understood_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENARI_TELEMETRY__LOG_LEVEL", "debug")
    monkeypatch.setenv("KENARI_TELEMETRY__TRACE_FILE", "/var/tmp/spans")
    telemetry = BookSettings.read().telemetry
    assert (telemetry.log_level, telemetry.trace_file) == ("DEBUG", Path("/var/tmp/spans"))
