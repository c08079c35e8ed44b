"""How a refusal for want of money reads: status, code and text (contract: Errors, How a chat request is charged).

Called by batch.py. Whoever holds somebody else's key is told nothing of the owner's figures.
"""

from libs.core.money import Micros, ceil_rupiah, floor_rupiah
from services.ledger.domain.calls import Denied, Reserve
from services.ledger.domain.meters import Meter, meter
from services.ledger.domain.state import Account

_STATUS = {"subscribers_only": 403, "plan_limit_reached": 429}
_PAYMENT_REQUIRED = 402


def denied(code: str, call: Reserve, account: Account, worst: int, top_up_url: str) -> Denied:
    """The answer to a request that must not run; ``worst`` is what it could have cost."""
    available = account.wallet.available if account.wallet is not None else 0
    text = _text(code, call, available, worst, top_up_url)
    if call.shared_key:
        available = 0
    return Denied(_STATUS.get(code, _PAYMENT_REQUIRED), code, text, available, worst)


def _text(code: str, call: Reserve, available: int, worst: int, top_up_url: str) -> str:
    if code == "subscribers_only":
        return f"{call.model} is for accounts with an active plan; choose a plan, or a model that is open to everyone"
    if code == "plan_limit_reached":
        # In Indonesian, as the contract says: it is for the owner of the plan.
        return (
            "Kuota paket untuk model ini sudah habis pada salah satu jendela. Tunggu jendela itu dimulai lagi, atau "
            "izinkan pemakaian saldo atau model gratis di halaman Plan"
        )
    if code == "key_spend_cap_reached":
        return "this API key has used up its cap; its owner can raise the cap, start its count anew or use another key"
    if code == "payg_limit_reached":
        return (
            "PAYG balance limit reached: spending from the balance is paused until enough of it is older than "
            "the limit's window. Raise or remove the limit on the Plan page to go on now"
        )
    if code == "member_spend_cap_reached":
        return (
            "your cap on this workspace's balance leaves too little for this request; an owner or admin of the "
            "workspace can raise it, and it frees itself as your spending grows older than 30 days"
        )
    return _insufficient(call, available, worst, top_up_url)


def _insufficient(call: Reserve, available: int, worst: int, top_up_url: str) -> str:
    if call.shared_key:
        return (
            "insufficient balance: the owner of this shared key cannot pay for this request at the moment; "
            "ask whoever gave you the key"
        )
    have, cost = floor_rupiah(Micros(available)), ceil_rupiah(Micros(worst))
    if meter(call.endpoint) is Meter.CHAT:
        return (
            f"insufficient balance: {have} is available and this request can cost up to "
            f"{cost} (the estimated input plus max_tokens at the output price). "
            f"Shorten the prompt, lower max_tokens or top up at {top_up_url}"
        )
    if call.endpoint == "ocr":
        return (
            f"insufficient balance: {have} is available and reading this document costs {cost}, by the page; "
            f"plans do not cover it. Top up at {top_up_url}"
        )
    return f"insufficient balance: {have} is available and this request costs up to {cost}. Top up at {top_up_url}"
