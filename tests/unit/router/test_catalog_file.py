"""The catalogue file: what is refused, with which line and reason, and what an accepted one means."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from services.router.catalog.load import load
from services.router.catalog.marks import CatalogError

ROOT = Path(__file__).resolve().parents[3]
REFUSED = sorted((Path(__file__).parent / "refused").glob("*.yaml"))
SHIPPED = ROOT / "deploy" / "catalog.yaml"


def expected(file: Path) -> list[tuple[int, str]]:
    """What the file says of itself: ``#! reason`` stands on the line of each mistake."""
    found = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        found += [(number, reason.strip()) for reason in line.split("#!")[1:]]
    return sorted(found)


@pytest.mark.parametrize("file", REFUSED, ids=lambda file: file.stem)
def test_every_mistake_is_told_with_file_line_and_reason(file: Path) -> None:
    with pytest.raises(CatalogError) as refused:
        load(file, {})
    assert [(item.line, item.reason) for item in refused.value.mistakes] == expected(file)
    lines = str(refused.value).splitlines()
    assert lines == [f"{file}:{line}: {reason}" for line, reason in expected(file)]


def test_a_secret_written_into_the_file_is_not_repeated() -> None:
    for name in ("key_in_file", "base_url"):
        with pytest.raises(CatalogError) as refused:
            load(Path(__file__).parent / "refused" / f"{name}.yaml", {})
        assert "sk-abc" not in str(refused.value)
        assert "secret@" not in str(refused.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"gone\.yaml:1: cannot be read"):
        load(tmp_path / "gone.yaml", {})
    (tmp_path / "bytes.yaml").write_bytes(b"providers: \xff\xfe")
    with pytest.raises(CatalogError, match=r"bytes\.yaml:1: is not UTF-8"):
        load(tmp_path / "bytes.yaml", {})
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(CatalogError, match=r"empty\.yaml:1: the file must have"):
        load(tmp_path / "empty.yaml", {})
    (tmp_path / "bell.yaml").write_text("providers:\n  - id: \x07\n")
    with pytest.raises(CatalogError, match=r"bell\.yaml:2: no valid YAML"):
        load(tmp_path / "bell.yaml", {})


_WORDS = st.sampled_from(
    ["providers", "models", "discovered", "id", "format", "simulated", "served_by", "provider", "base_url", "vendor"]
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=5)
_ANYTHING = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4), max_leaves=20
)


@given(document=st.dictionaries(_WORDS, _ANYTHING, max_size=5) | _ANYTHING)
def test_whatever_the_file_holds_it_is_read_or_refused_with_lines(document: object) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        yaml.safe_dump(document, file, allow_unicode=True)
        file.flush()
        with pytest.raises(CatalogError) as refused:
            load(Path(file.name), {})
    assert all(item.line >= 1 and "\n" not in item.reason for item in refused.value.mistakes)
    assert refused.value.mistakes


def test_without_a_key_only_the_simulated_provider_is_in_use() -> None:
    file = load(SHIPPED, {"OPENAI_API_KEY": "  "})
    assert [provider.id for provider in file.providers] == ["simulated"]


def test_the_key_alone_switches_the_real_provider_on() -> None:
    openai = load(SHIPPED, {"OPENAI_API_KEY": "sk-1"}).providers[1]
    assert (openai.id, openai.base_url, openai.discover) == ("openai", "https://api.openai.com/v1", True)
    assert [(item.id, item.secret) for item in openai.credentials] == [("openai/OPENAI_API_KEY", "sk-1")]
    assert "sk-1" not in repr(openai)


def test_the_base_url_comes_from_the_environment_and_empty_means_unset() -> None:
    openai = load(SHIPPED, {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://10.0.0.5:8000/v1/"}).providers[1]
    assert openai.base_url == "http://10.0.0.5:8000/v1"
    openai = load(SHIPPED, {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": ""}).providers[1]
    assert openai.base_url == "https://api.openai.com/v1"


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it() -> None:
    with pytest.raises(CatalogError, match="OPENAI_API_KEY has characters no key can have") as refused:
        load(SHIPPED, {"OPENAI_API_KEY": "sk-\n1\r\nx: y"})
    assert "sk-" not in str(refused.value)


def test_prices_in_rupiah_become_whole_micro_rupiah() -> None:
    sim = load(SHIPPED, {}).models[0]
    prices = sim.prices(0)
    assert prices is not None
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == (
        4_200_000_000,
        24_000_000_000,
        840_000_000,
        None,
    )


@pytest.mark.parametrize(("file", "code"), [(SHIPPED, 0), (REFUSED[0], 1)], ids=["good", "refused"])
def test_the_check_command_tells_by_its_exit_code(file: Path, code: int) -> None:
    command = [sys.executable, "-m", "services.router.catalog", "check", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).startswith(f"{file}:")
