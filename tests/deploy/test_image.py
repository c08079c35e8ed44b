"""The image holds what the services need: the files its Dockerfile copies, the packages its lock pins.
No image is built here; what a build would stumble over is looked at.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.deploy.compose import ROOT

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COPIED = [
    source for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for source in line.split()[:-1]
]


def pins(lock: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", (ROOT / lock).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def test_everything_that_is_copied_exists_and_is_sent_to_the_engine() -> None:
    assert COPIED == ["deploy/requirements.lock", "libs", "services", "deploy/catalog.yaml"]
    assert [source for source in COPIED if not (ROOT / source).exists()] == []
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == set(COPIED)


def test_the_image_runs_a_python_the_project_is_for() -> None:
    versions = set(re.findall(r"^FROM python:([\d.]+)-slim", DOCKERFILE, re.MULTILINE))
    assert len(versions) == 1
    assert versions.pop() in SpecifierSet(PROJECT["requires-python"])


def test_the_lock_pins_what_the_project_needs_and_no_tools() -> None:
    pinned = pins("deploy/requirements.lock")
    assert names(PROJECT["dependencies"]) <= pinned.keys()
    extras = PROJECT["optional-dependencies"]
    assert names([*extras["local"], *extras["dev"]]) & pinned.keys() <= names(PROJECT["dependencies"])


def test_the_image_runs_the_versions_that_were_tested() -> None:
    tested = pins("requirements.lock")
    assert {
        name: version for name, version in pins("deploy/requirements.lock").items() if tested[name] != version
    } == {}


def test_every_pin_has_hashes() -> None:
    for block in re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "deploy/requirements.lock").read_text()):
        if "==" in block.partition("\n")[0]:
            assert "--hash=sha256:" in block


@pytest.mark.parametrize("folder", ["libs", "services"])
def test_everything_imported_is_in_the_image(folder: str) -> None:
    pinned, distributions = pins("deploy/requirements.lock").keys(), packages_distributions()
    missing = {
        module
        for module in imported(ROOT / folder)
        if module not in {"libs", "services", "kenari", *sys.stdlib_module_names}
        and not {canonicalize_name(name) for name in distributions.get(module, ())} & pinned
    }
    assert missing == set()


def imported(folder: Path) -> set[str]:
    return {
        module.partition(".")[0] for file in folder.rglob("*.py") for module in modules(ast.parse(file.read_text()))
    }


def modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
