"""What the bench sells and to whom: two models of one provider, and accounts that are rich and have a key each.
Called by tests.bench.gateway.
"""

import json
import uuid
from pathlib import Path
from typing import Any

import grpc

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.ledger.v1 import funding_pb2, funding_pb2_grpc, ledger_pb2, ledger_pb2_grpc

from libs.core.money import PER_RUPIAH
from tests.bench.load import BenchError

PAID_MODEL = "bench"
FREE_MODEL = "bench:free"
# Enough that the load is spread as in production; one busy account is a case of its own.
ACCOUNTS = 100
_BALANCE_RUPIAH = 1_000_000_000
# Far above what any load reaches: limits are checked at every request, and never refuse one.
_FREE_LIMIT = 1_000_000_000
_REQUESTS_PER_MINUTE = 1_000_000
_MOST = 2**50
_PLAN = "plan_bench"
_DEADLINE_S = 10.0


def write_catalog(file: Path, provider_url: str, provider_model: str) -> Path:
    """Write a catalogue with one provider and the two models of the bench, and return where."""
    provider = {"id": "mock", "format": "openai_chat", "base_url": provider_url}
    served_by = [{"provider": "mock", "upstream_model": provider_model}]
    common = {"vendor": "bench", "context_length": 131072, "max_output_tokens": 8192, "served_by": served_by}
    paid = {"id": PAID_MODEL, **common, "rupiah_per_1m_tokens": {"input": 4200, "output": 24000}}
    free = {"id": FREE_MODEL, **common, "free": True, "free_rpm": _FREE_LIMIT, "free_daily": _FREE_LIMIT}
    # JSON is YAML.
    file.write_text(json.dumps({"providers": [provider], "models": [paid, free]}, indent=2))
    return file


def open_accounts(accounts: str, ledger: str) -> tuple[list[str], list[str]]:
    """Create accounts with balance and key through the services at these gRPC addresses.

    Returns the keys of plain accounts, and those of accounts with everything on that may pay or refuse: capped keys,
    a PAYG limit, and for every second one a plan that pays.
    """
    try:
        with grpc.insecure_channel(accounts) as to_accounts, grpc.insecure_channel(ledger) as to_ledger:
            people = accounts_pb2_grpc.AccountsStub(to_accounts)
            books = ledger_pb2_grpc.LedgerStub(to_ledger)
            funds = funding_pb2_grpc.FundsStub(to_ledger)
            plain = [_open_account(people, books) for _ in range(ACCOUNTS)]
            most: dict[str, Any] = {"week_micro_idr": _MOST, "month_micro_idr": _MOST, "five_hour_micro_idr": _MOST}
            plan = funding_pb2.Plan(plan_id=_PLAN, name=_PLAN, models=[PAID_MODEL], on_sale=True, **most)
            funds.PutPlan(funding_pb2.PutPlanRequest(plan=plan), timeout=_DEADLINE_S)
            capped = [_open_account(people, books, spend_cap_micro_idr=_MOST, token_cap=_MOST) for _ in range(ACCOUNTS)]
            for number, (account_id, _) in enumerate(capped):
                _fund(funds, account_id, planned=number % 2 == 0)
            return [secret for _, secret in plain], [secret for _, secret in capped]
    except grpc.RpcError as error:
        raise BenchError(f"the bench's accounts could not be made: {error.details()}") from error


def _fund(funds: funding_pb2_grpc.FundsStub, account_id: str, *, planned: bool) -> None:
    limit = funding_pb2.PaygLimit(amount_micro_idr=_MOST, window="month")
    funds.SetFunding(funding_pb2.SetFundingRequest(account_id=account_id, payg_limit=limit), timeout=_DEADLINE_S)
    if planned:
        grant = funding_pb2.GrantPlanRequest(
            account_id=account_id, plan_id=_PLAN, idempotency_key=account_id, source="granted"
        )
        funds.GrantPlan(grant, timeout=_DEADLINE_S)


def _open_account(
    people: accounts_pb2_grpc.AccountsStub, books: ledger_pb2_grpc.LedgerStub, **key: Any
) -> tuple[str, str]:
    created = people.CreateAccount(accounts_pb2.CreateAccountRequest(name="bench"), timeout=_DEADLINE_S)
    account_id = created.account.account_id
    limits = accounts_pb2.SetAccountLimitsRequest(account_id=account_id, requests_per_minute=_REQUESTS_PER_MINUTE)
    people.SetAccountLimits(limits, timeout=_DEADLINE_S)
    credit = ledger_pb2.CreditRequest(
        account_id=account_id,
        amount_micro_idr=_BALANCE_RUPIAH * PER_RUPIAH,
        idempotency_key=uuid.uuid4().hex,
        kind="top_up",
        note="bench",
    )
    books.Credit(credit, timeout=_DEADLINE_S)
    request = accounts_pb2.CreateKeyRequest(account_id=account_id, label="bench", **key)
    return account_id, str(people.CreateKey(request, timeout=_DEADLINE_S).secret)
