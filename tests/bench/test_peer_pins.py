"""That the peers are pinned whole: every package by version and hash, and no address to fetch from.
Run by pytest; reads the files beside tests/bench/peers only.
"""

import json
import re
from pathlib import Path

from tests.bench.peers.setup import Peers

_PINS = Path(__file__).parent / "peers"
_LITELLM = (_PINS / "litellm" / "requirements.lock").read_text()
_PORTKEY = (_PINS / "portkey" / "package-lock.json").read_text()


def test_no_lock_file_says_where_to_fetch_from() -> None:
    for text in (_LITELLM, _PORTKEY):
        assert "://" not in text
        assert '"resolved"' not in text


def test_every_python_package_has_one_version_and_a_hash() -> None:
    blocks = re.split(r"\n(?=[a-z0-9])", _LITELLM.strip(), flags=re.IGNORECASE)

    assert len(blocks) > 50
    for block in blocks:
        assert "==" in block.splitlines()[0]
        assert "--hash=sha256:" in block


def test_every_node_package_has_one_version_and_a_hash() -> None:
    packages = {name: entry for name, entry in json.loads(_PORTKEY)["packages"].items() if name}

    assert len(packages) > 50
    for entry in packages.values():
        assert entry["version"]
        assert entry["integrity"].startswith("sha512-")


def test_portkey_has_the_http_adapter_with_which_it_can_stream() -> None:
    packages = json.loads(_PORTKEY)["packages"]

    assert packages["node_modules/@hono/node-server"]["version"] == "1.13.8"


def test_versions_are_read_from_the_lock_files(tmp_path: Path) -> None:
    versions = Peers(tmp_path).versions()

    assert versions["litellm"].startswith("1.108.")
    assert versions["portkey"].startswith("1.15.")
