"""What of a request fits a model: its output limit, and the headers that tell what else became of it.

Called by admission, and by the free route for each model in turn.
"""

from kenari.router.v1 import router_pb2

from libs.llm.canonical import DEFAULT_MAX_TOKENS, ChatRequest
from libs.llm.reasoning import ReasoningControl
from services.edge.errors import refuse
from services.edge.exchange import Header


def fitting_max_tokens(request: ChatRequest, model: router_pb2.Model) -> int:
    """The output limit in force: what was asked or the default, within what the model can do.

    Raise context_length_exceeded when the input alone does not fit (contract: Chat completions, Errors).
    """
    room = model.context_length - request.input_tokens if model.context_length else DEFAULT_MAX_TOKENS
    too_long = model.max_input_tokens and request.input_tokens > model.max_input_tokens
    if too_long or (model.context_length and room < 1):
        most = model.max_input_tokens or model.context_length
        message = (
            f"the input is about {request.input_tokens:,} tokens and {model.id} takes {most:,}; "
            "shorten it or use a model with a longer context"
        )
        raise refuse(400, "context_length_exceeded", message, kind="invalid_request_error")
    limits = [request.max_tokens or DEFAULT_MAX_TOKENS]
    if model.max_output_tokens:
        limits.append(model.max_output_tokens)
    if model.context_length:
        limits.append(room)
    return min(limits)


def gated_header(request: ChatRequest, reasoning: ReasoningControl) -> tuple[Header, ...]:
    """The level in force, where the client named one (contract: Reasoning, Set the level in the model id)."""
    if reasoning.effort is None or request.reasoning.effort is None:
        return ()
    return ((b"x-kenari-gated-effort", reasoning.effort.encode()),)


def forwarded_header(request: ChatRequest, model: router_pb2.Model) -> tuple[Header, ...]:
    """Which model serves in place of a retired one (contract: Models and pricing, x-kenari-model-forwarded)."""
    if model.id == request.model:
        return ()
    return ((b"x-kenari-model-forwarded", f"{request.model}->{model.id}".encode()),)
