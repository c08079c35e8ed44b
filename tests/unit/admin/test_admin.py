"""The operator's command line without any service: amounts, tables, usage errors and exit codes."""

import json
import re
from typing import Any

import click
import pytest
from kenari.accounts.v1 import accounts_pb2

from services.admin import show
from services.admin.action import Rupiah
from services.admin.app import main


@pytest.mark.parametrize(
    ("text", "micros"),
    [("1", 1_000_000), ("100000", 100_000_000_000), ("12.5", 12_500_000), ("0.000001", 1), ("007", 7_000_000)],
)
def test_an_amount_is_read_exactly(text: str, micros: int) -> None:
    assert Rupiah().convert(text, None, None) == micros


@pytest.mark.parametrize(
    "text", ["", "0", "0.0", "-5", "+5", "1e3", "1,000", "1.", ".5", "1.0000001", "x", "١٢", "9" * 13, "1.2.3"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Rupiah().convert(text, None, None)


def test_a_table_has_columns_for_what_any_row_holds() -> None:
    rows: list[dict[str, Any]] = [
        {"key_id": "key_a", "label": None, "spend_cap_micro_idr": 12_500_000, "models": ["a", "b"], "parent": None},
        {"key_id": "key_bb", "label": "x\x1b[31m", "spend_cap_micro_idr": None, "models": None, "parent": None},
    ]
    lines = show.text(rows, as_json=False).splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["key id", "label", "spend cap", "models"]
    assert re.split(r"\s{2,}", lines[1]) == ["key_a", "-", "Rp 12.5", "a, b"]
    assert "\x1b" not in lines[2] and "x?[31m" in lines[2]
    assert show.text([], as_json=False) == "none"
    assert json.loads(show.text(rows, as_json=True)) == rows


@pytest.mark.parametrize(
    ("micros", "shown"),
    [(0, "Rp 0"), (1, "Rp 0.000001"), (1_234_567_500_000, "Rp 1,234,567.5"), (-1_500_000, "Rp -1.5")],
)
def test_amounts_are_shown_exactly(micros: int, shown: str) -> None:
    assert show.text({"balance_micro_idr": micros}, as_json=False).split(maxsplit=1) == ["balance", shown]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "active"),
        ({"disabled": True}, "disabled"),
        ({"expires_at_ms": 1, "disabled": True}, "expired"),
        ({"expires_at_ms": 1, "status": accounts_pb2.KEY_STATUS_REVOKED}, "revoked"),
    ],
)
def test_a_key_has_one_status_the_one_that_nothing_undoes_first(fields: dict[str, Any], status: str) -> None:
    assert show.key(accounts_pb2.Key(key_id="key_a", **fields))["status"] == status


def test_one_thing_is_shown_line_by_line() -> None:
    assert show.text({"account_id": "acct_a", "name": "A"}, as_json=False) == "account id  acct_a\nname        A"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["keys", "nonsense"],
        ["keys", "create"],
        ["keys", "create", "acct_a", "--kind", "tool"],
        ["keys", "create", "acct_a", "--capability", "flying"],
        ["keys", "create", "acct_a", "--expires-in-days", "0"],
        ["keys", "create", "acct_a", "--spend-cap", "1e3"],
        ["keys", "create", "acct_a", "--token-cap", "0"],
        ["keys", "create", "acct_a", "--cap-period", "year"],
        ["keys", "limit", "key_a", "--spend-cap", "5", "--no-spend-cap"],
        ["keys", "limit", "key_a", "--allow-ip", "10.0.0.1", "--any-ip"],
        # A token cap is fixed when a key is made.
        ["keys", "limit", "key_a", "--token-cap", "5"],
        ["credit", "acct_a", "1,000"],
        ["limits", "set", "acct_a"],
        ["members", "add", "acct_a", "a@b.c", "--role", "king"],
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert told.startswith("kenari: ") and told.count("\n") == 1


def test_wrong_settings_are_exit_code_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ADMIN_TIMEOUT_S", "soon")
    assert main(["accounts", "list"]) == 2
    assert "ADMIN_TIMEOUT_S" in capsys.readouterr().err


def test_help_is_exit_code_0_and_nothing_at_all_shows_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "accounts" in capsys.readouterr().out
    assert main([]) == 2
    assert "accounts" in capsys.readouterr().err
