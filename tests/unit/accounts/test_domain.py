"""What can be an account, a key and a limit, and what the settings insist on."""

from functools import partial

import pytest

from libs.core.errors import ConfigError
from services.accounts.domain.account import CreateAccount, check_requests_per_minute
from services.accounts.domain.errors import InvalidError
from services.accounts.domain.key import Capability, CreateKey, CreateToolKey, KeyKind
from services.accounts.domain.limits import Limits
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


@pytest.mark.rule("AUTH-066", "AUTH-067")
def test_a_shared_key_is_for_chosen_models_and_1_to_90_days() -> None:
    shared = partial(CreateKey, "acct_a", kind=KeyKind.SHARED)
    for days in (1, 90):
        key = shared(models=("m",), expires_in_days=days)
        key.check(NOW)
        assert key.ends_at_ms(NOW) == NOW + days * 86_400_000
    for wrong in (
        shared(models=("m",), expires_in_days=91),
        shared(models=("m",)),
        shared(models=("m",), expires_at_ms=NOW + 86_400_000),
        shared(expires_in_days=30),
        shared(models=("m",), expires_in_days=30, note="x" * 501),
    ):
        with pytest.raises(InvalidError):
            wrong.check(NOW)


def test_a_login_key_has_no_restrictions_and_makes_per_tool_keys_itself() -> None:
    CreateKey("acct_a", kind=KeyKind.LOGIN, expires_in_days=30).check(NOW)
    for wrong in (
        CreateKey("acct_a", kind=KeyKind.LOGIN, models=("m",)),
        CreateKey("acct_a", kind=KeyKind.LOGIN, limits=Limits(spend_cap_micro_idr=1)),
        CreateKey("acct_a", kind=KeyKind.LOGIN, limits=Limits(token_cap=1)),
        CreateKey("acct_a", kind=KeyKind.TOOL),
    ):
        with pytest.raises(InvalidError):
            wrong.check(NOW)


def test_a_key_expires_at_a_moment_or_after_days_and_has_no_negative_caps() -> None:
    CreateKey("acct_a", capabilities=tuple(Capability), limits=Limits(spend_cap_micro_idr=5, token_cap=7)).check(NOW)
    for wrong in (
        CreateKey("acct_a", expires_at_ms=NOW + 1, expires_in_days=1),
        CreateKey("acct_a", expires_in_days=10_000_000),
        CreateKey("acct_a", limits=Limits(spend_cap_micro_idr=-1)),
        CreateKey("acct_a", limits=Limits(token_cap=-1)),
        CreateKey("acct_a", label="a\0b"),
        CreateKey("acct_a", note="not shared"),
    ):
        with pytest.raises(InvalidError):
            wrong.check(NOW)


@pytest.mark.rule("KEY-010", "KEY-011", "KEY-014")
def test_tool_and_host_have_the_characters_and_lengths_of_the_contract() -> None:
    for tool, host in (("a", "A"), ("a-z.09", "My_Mac.local-2"), ("t" * 40, "h" * 64)):
        wanted = CreateToolKey("key_a", tool, host, "key_b")
        wanted.check()
        assert wanted.label == f"kenari-cli · {tool} · {host}"
    for tool in ("", "t" * 41, "Codex", "a_b", "a b", "a\n", "é"):
        with pytest.raises(InvalidError, match="tool"):
            CreateToolKey("key_a", tool, "laptop", "key_b").check()
    for host in ("", "h" * 65, "my mac", "a/b", "a\n", "é"):
        with pytest.raises(InvalidError, match="host"):
            CreateToolKey("key_a", "codex", host, "key_b").check()


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
