"""Which model ids a key may name at all, judged by their shape alone before anybody is asked.

Called by the chat endpoint (contract: Restrict a key, Shared API keys; decision A27).
"""

from services.edge.errors import refuse
from services.edge.keys import Caller

# Longer than any id of ours; what is longer need not travel to be unknown.
MODEL_ID_MAX = 256
FREE_ROUTE = "kenari-free"
"""The built-in route over all free models (contract: Free models, The kenari-free route)."""
OWN_KEYS = "byok/"


def check_model(caller: Caller, model: str) -> None:
    """Raise RefusedError for an id that no model has, or that this key may not name."""
    if len(model) > MODEL_ID_MAX:
        raise refuse(400, "model_not_found", f"there is no model with an id of {len(model):,} characters")
    if model.startswith(OWN_KEYS) and caller.caps is not None and caller.caps.spend_micro_idr:
        # Such use costs nothing here: the cap would never be reached.
        message = "a key with a spend cap does not reach models of your own providers; limit it by tokens instead"
        raise refuse(403, "byok_spend_capped_key", message, kind="permission_error")
    if model == FREE_ROUTE:
        check_route(caller)
    if caller.models and model not in caller.models:
        allowed = ", ".join(sorted(caller.models))
        raise refuse(400, "bad_request", f"this key may not use {model}; it may use: {allowed}")


def check_route(caller: Caller) -> None:
    """Raise RefusedError for a key that may not use routes, whatever their models are."""
    if caller.restricted or caller.shared:
        raise refuse(400, "bad_request", "a key with a model scope or a cap does not use routes; name a model")
