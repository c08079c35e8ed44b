"""The rule files are well formed, so that a marker and a total can be trusted.
Run with the unit tests."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.rulebook import read_section, rules, section_files

OWNERS = {
    "accounts", "changes", "cli", "console", "documents", "edge", "ledger", "limiter", "notifier", "router",
    "videos",
}  # fmt: skip
SURFACES = {"http", "stream", "event", "state", "ui", "cli", "docs"}
REQUIRED = {"id", "rule", "where", "surface", "owner"}
OPTIONAL = {"note", "see"}
SECTIONS = section_files()


def faults_of(entries: list[dict[str, Any]]) -> list[str]:
    """Every way in which the entries of one file break the format."""
    faults = []
    for place, entry in enumerate(entries, start=1):
        name = entry.get("id", f"entry {place}")
        if missing := REQUIRED - entry.keys():
            faults.append(f"{name}: lacks {sorted(missing)}")
            continue
        if unknown := entry.keys() - REQUIRED - OPTIONAL:
            faults.append(f"{name}: unknown fields {sorted(unknown)}")
        if empty := [key for key, value in entry.items() if not isinstance(value, str) or not value.strip()]:
            faults.append(f"{name}: not a text: {empty}")
        if entry["owner"] not in OWNERS:
            faults.append(f"{name}: unknown owner {entry['owner']!r}")
        if entry["surface"] not in SURFACES:
            faults.append(f"{name}: unknown surface {entry['surface']!r}")
        if not re.fullmatch(r"[A-Z]+-\d{3}", str(name)):
            faults.append(f"{name}: an id is a prefix in capitals and three digits")
    prefixes = {str(entry.get("id")).partition("-")[0] for entry in entries}
    if len(prefixes) > 1:
        faults.append(f"more than one prefix: {sorted(prefixes)}")
    return faults


def good_entry() -> dict[str, Any]:
    return {
        "id": "CHAT-001",
        "rule": "It answers.",
        "where": "Chat completions",
        "surface": "http",
        "owner": "edge",
    }


@pytest.mark.parametrize("path", SECTIONS, ids=lambda path: path.stem)
def test_a_rule_file_is_well_formed(path: Path) -> None:
    assert faults_of(read_section(path)) == []


def test_every_id_is_used_once_and_every_prefix_belongs_to_one_file() -> None:
    ids = [entry["id"] for path in SECTIONS for entry in read_section(path)]
    owners_of_prefix: dict[str, set[str]] = {}
    for rule in rules().values():
        owners_of_prefix.setdefault(rule.id.partition("-")[0], set()).add(rule.section)

    assert len(ids) == len(set(ids))
    assert {prefix: names for prefix, names in owners_of_prefix.items() if len(names) > 1} == {}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"owner": "nobody"}, "unknown owner"),
        ({"surface": "smoke"}, "unknown surface"),
        ({"id": "CHAT-1"}, "three digits"),
        ({"rule": " "}, "not a text"),
        ({"colour": "blue"}, "unknown fields"),
    ],
    ids=["owner", "surface", "id", "empty", "extra"],
)
def test_a_malformed_rule_is_named(change: dict[str, Any], fault: str) -> None:
    assert any(fault in line for line in faults_of([good_entry() | change]))


def test_a_rule_without_a_required_field_or_with_a_foreign_prefix_is_named() -> None:
    without_owner = {key: value for key, value in good_entry().items() if key != "owner"}

    assert "lacks ['owner']" in faults_of([without_owner])[0]
    assert "more than one prefix" in faults_of([good_entry(), good_entry() | {"id": "MSG-001"}])[0]
