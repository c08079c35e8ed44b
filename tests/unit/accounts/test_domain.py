"""What can be an account, a key and a limit, and what the settings insist on."""

import pytest

from libs.core.errors import ConfigError
from services.accounts.domain import (
    CreateAccount,
    CreateKey,
    InvalidError,
    check_requests_per_minute,
)
from services.accounts.settings import AccountsSettings

NOW = 1_800_000_000_000


@pytest.mark.parametrize("account_id", ["acct_a", "acct_demo-1", "acct_" + "x" * 64])
def test_ids_a_caller_may_choose(account_id: str) -> None:
    CreateAccount(account_id, "Someone").check()


@pytest.mark.parametrize(
    "account_id", ["", "acct_", "a", "acct_{x}", "acct_a b", "acct_" + "x" * 65, "key_a", "acct_a\n"]
)
def test_ids_nobody_may_choose(account_id: str) -> None:
    with pytest.raises(InvalidError):
        CreateAccount(account_id, "Someone").check()


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidError):
        CreateAccount("acct_a", name).check()


def test_a_key_may_expire_in_the_future_or_never() -> None:
    CreateKey("acct_a").check(NOW)
    CreateKey("acct_a", expires_at_ms=NOW + 1).check(NOW)
    for moment in (NOW, NOW - 1, 1, -5, 253_402_300_800_000):
        with pytest.raises(InvalidError):
            CreateKey("acct_a", expires_at_ms=moment).check(NOW)


@pytest.mark.parametrize("key", [
    CreateKey("acct_a", label="x" * 101),
    CreateKey("acct_a", models=("",)),
    CreateKey("acct_a", models=("m" * 201,)),
    CreateKey("acct_a", models=("m",) * 201),
])  # fmt: skip
def test_a_key_has_bounds(key: CreateKey) -> None:
    with pytest.raises(InvalidError):
        key.check(NOW)


def test_a_limit_has_bounds() -> None:
    check_requests_per_minute(0)
    check_requests_per_minute(1_000_000)
    with pytest.raises(InvalidError):
        check_requests_per_minute(1_000_001)


def test_settings_need_a_long_secret_and_never_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNTS_DATABASE__DSN", "postgresql://accounts:hidden@localhost/accounts")
    monkeypatch.setenv("KENARI_KEY_HASH_SECRET", "short")
    with pytest.raises(ConfigError, match="KEY_HASH_SECRET"):
        AccountsSettings.read()
    monkeypatch.setenv("KENARI_KEY_HASH_SECRET", "hidden" * 8)
    assert "hidden" not in str(AccountsSettings.read().masked())
