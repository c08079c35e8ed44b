"""The demo account of `make run`: made once, credited once, with a key that works at every start.
Called by the launcher when all services are ready.
"""

import contextlib

import libs  # noqa: F401  (puts the generated code on the path)

# isort: split
from kenari.accounts.v1 import accounts_pb2, accounts_pb2_grpc
from kenari.ledger.v1 import ledger_pb2, ledger_pb2_grpc

from deploy.local.addresses import Ports
from deploy.local.secret_files import write_private
from deploy.local.wiring import State
from libs.core.keys import hash_key, looks_like_key
from libs.core.money import PER_RUPIAH
from libs.core.settings import TelemetrySettings
from libs.ops.telemetry import Telemetry
from libs.rpc.client import RpcClient

ACCOUNT = "acct_demo"
CREDIT_RUPIAH = 100_000
# Fixed, so that the account is credited once however often this runs.
_CREDIT_ONCE = "demo-first-credit"
_DEADLINE_S = 10.0


async def provide(state: State, ports: Ports) -> str:
    """Make account, credit and key where they are missing; return the key. Raises Transient or Permanent."""
    telemetry = Telemetry("launcher", TelemetrySettings())
    async with contextlib.AsyncExitStack() as stack:
        to_accounts = RpcClient(ports.rpc("accounts"), telemetry, deadline_s=_DEADLINE_S)
        to_ledger = RpcClient(ports.rpc("ledger"), telemetry, deadline_s=_DEADLINE_S)
        stack.push_async_callback(to_accounts.stop)
        stack.push_async_callback(to_ledger.stop)
        accounts = accounts_pb2_grpc.AccountsStub(to_accounts.channel)
        account = accounts_pb2.CreateAccountRequest(account_id=ACCOUNT, name="Demo")
        await to_accounts.call("accounts.CreateAccount", accounts.CreateAccount, account, retry=True)
        await _credit(to_ledger)
        kept = _kept_key(state)
        if kept and await _is_active(to_accounts, accounts, state, kept):
            return kept
        request = accounts_pb2.CreateKeyRequest(account_id=ACCOUNT, label="demo")
        made = await to_accounts.call("accounts.CreateKey", accounts.CreateKey, request)
        write_private(state.demo_key, f"{made.secret}\n")
        return str(made.secret)


async def _credit(client: RpcClient) -> None:
    request = ledger_pb2.CreditRequest(
        account_id=ACCOUNT,
        amount_micro_idr=CREDIT_RUPIAH * PER_RUPIAH,
        idempotency_key=_CREDIT_ONCE,
        kind="top_up",
        note="demo",
    )
    await client.call("ledger.Credit", ledger_pb2_grpc.LedgerStub(client.channel).Credit, request, retry=True)


def _kept_key(state: State) -> str | None:
    try:
        text = state.demo_key.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return text if looks_like_key(text) else None


async def _is_active(client: RpcClient, accounts: accounts_pb2_grpc.AccountsStub, state: State, key: str) -> bool:
    request = accounts_pb2.ResolveKeyRequest(key_hash=hash_key(state.secret("key-hash").encode(), key))
    answer = await client.call("accounts.ResolveKey", accounts.ResolveKey, request, retry=True)
    active = answer.HasField("key") and answer.key.status == accounts_pb2.KEY_STATUS_ACTIVE
    return bool(active) and not answer.key.disabled
