"""Which model ids a key may name: its scope, the built-in route, and models of the account's own providers."""

import pytest
from kenari.ledger.v1.ledger_pb2 import KeyCaps

from services.edge.errors import RefusedError
from services.edge.keys import Caller
from services.edge.scope import MODEL_ID_MAX, check_model

PLAIN = Caller("key_a", "acct_a")
SCOPED = Caller("key_a", "acct_a", models=frozenset({"b", "a", "byok/openai/x", "kenari-free"}))
SHARED = Caller("key_a", "acct_a", models=frozenset({"a"}), kind="shared")
SPEND = Caller("key_a", "acct_a", caps=KeyCaps(spend_micro_idr=1))
TOKENS = Caller("key_a", "acct_a", caps=KeyCaps(tokens=1))
BOTH = Caller("key_a", "acct_a", models=frozenset({"byok/openai/x"}), caps=KeyCaps(spend_micro_idr=1, tokens=1))


def refusal(caller: Caller, model: str) -> tuple[int, str, str]:
    with pytest.raises(RefusedError) as refused:
        check_model(caller, model)
    error = refused.value.error
    return error.status, error.code, error.message


@pytest.mark.parametrize(
    ("caller", "model"),
    [(PLAIN, "a"), (PLAIN, "kenari-free"), (PLAIN, "byok/openai/x"), (PLAIN, "x" * MODEL_ID_MAX), (SCOPED, "a"),
     (SCOPED, "byok/openai/x"), (SHARED, "a"), (SPEND, "a"), (TOKENS, "byok/openai/x")],
)  # fmt: skip
def test_what_a_key_may_name(caller: Caller, model: str) -> None:
    check_model(caller, model)


@pytest.mark.rule("AUTH-048", "AUTH-071")
def test_a_scope_names_what_it_allows() -> None:
    status, code, message = refusal(SCOPED, "c")
    assert (status, code) == (400, "bad_request")
    assert message.endswith("a, b, byok/openai/x, kenari-free")


@pytest.mark.rule("AUTH-062", "AUTH-078", "FREE-012")
@pytest.mark.parametrize("caller", [SCOPED, SHARED, SPEND, TOKENS], ids=["scoped", "shared", "spend", "tokens"])
def test_a_restricted_key_uses_no_route(caller: Caller) -> None:
    assert refusal(caller, "kenari-free")[:2] == (400, "bad_request")


@pytest.mark.rule("AUTH-063")
@pytest.mark.parametrize("caller", [SPEND, BOTH], ids=["spend", "both"])
def test_a_spend_cap_keeps_a_key_from_the_accounts_own_providers(caller: Caller) -> None:
    for model in ("byok/openai/x", "byok/", "byok/" + "x" * 200):
        assert refusal(caller, model)[:2] == (403, "byok_spend_capped_key")


def test_an_endless_id_is_no_model_and_is_not_repeated() -> None:
    for caller in (PLAIN, SCOPED):
        status, code, message = refusal(caller, "x" * (MODEL_ID_MAX + 1))
        assert (status, code) == (400, "model_not_found")
        assert len(message) < 100
