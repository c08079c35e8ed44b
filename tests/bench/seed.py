"""Makes the one account of the bench: rich, without a limit it could reach, with a key.
Called by tests.bench.gateway once the services answer.
"""

import uuid

import grpc

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from libs.core.money import PER_RUPIAH
from tests.bench.load import BenchError

_BALANCE_RUPIAH = 1_000_000_000
_REQUESTS_PER_MINUTE = 1_000_000_000
_DEADLINE_S = 10.0


def seed(accounts: str, ledger: str) -> str:
    """Create account, key and balance through the services at these gRPC addresses; return the key."""
    try:
        with grpc.insecure_channel(accounts) as channel:
            account_id, key = _open_account(accounts_pb2_grpc.AccountsStub(channel))
        with grpc.insecure_channel(ledger) as channel:
            ledger_pb2_grpc.LedgerStub(channel).Credit(
                ledger_pb2.CreditRequest(
                    account_id=account_id,
                    amount_micro_idr=_BALANCE_RUPIAH * PER_RUPIAH,
                    idempotency_key=uuid.uuid4().hex,
                    kind="top_up",
                    note="bench",
                ),
                timeout=_DEADLINE_S,
            )
    except grpc.RpcError as error:
        raise BenchError(f"the bench's account could not be made: {error}") from error
    return key


def _open_account(accounts: accounts_pb2_grpc.AccountsStub) -> tuple[str, str]:
    created = accounts.CreateAccount(accounts_pb2.CreateAccountRequest(name="bench"), timeout=_DEADLINE_S)
    account_id = created.account.account_id
    limits = accounts_pb2.SetAccountLimitsRequest(account_id=account_id, requests_per_minute=_REQUESTS_PER_MINUTE)
    accounts.SetAccountLimits(limits, timeout=_DEADLINE_S)
    request = accounts_pb2.CreateKeyRequest(account_id=account_id, label="bench")
    return account_id, accounts.CreateKey(request, timeout=_DEADLINE_S).secret
