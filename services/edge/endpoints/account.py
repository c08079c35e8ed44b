"""GET /v1/account/balance (contract: Account balance)."""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from services.edge.clients import LedgerClient
from services.edge.endpoints.reading import UnrestrictedCaller

router = APIRouter()


class Balance(BaseModel):
    """Amounts in micro-Rupiah."""

    object: Literal["account.balance"] = "account.balance"
    balance_micro_idr: int
    reserved_micro_idr: int
    available_micro_idr: int
    currency: Literal["IDR"] = "IDR"


@router.get("/v1/account/balance", summary="Read the prepaid balance")
async def read_balance(request: Request, caller: UnrestrictedCaller) -> Balance:
    """Balance, what running requests hold of it, and what a new request can use."""
    ledger: LedgerClient = request.app.state.ledger
    balance = await ledger.balance(caller.account_id)
    return Balance(
        balance_micro_idr=balance.balance_micro_idr,
        reserved_micro_idr=balance.reserved_micro_idr,
        available_micro_idr=balance.available_micro_idr,
    )
