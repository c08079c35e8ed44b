"""Reasoning levels in model ids, and what a request's wish about reasoning becomes on a model.

Called by the chat endpoint before admission and by admission once the route is known (contract: Reasoning).
"""

from kenari.router.v1 import router_pb2
from msgspec.structs import replace

from libs.llm.canonical import ChatRequest, Effort, ReasoningWish
from libs.llm.reasoning import ReasoningControl, gate, split_level
from services.edge.catalog import Catalog
from services.edge.errors import refuse


def named(request: ChatRequest, catalog: Catalog) -> tuple[ChatRequest, Effort | None]:
    """The request with the model's plain id, and the level its id named, if it did.

    The level stands for all the body says about reasoning, but for what is to be shown.
    """
    if ":" not in request.model or catalog.get(request.model) is not None:
        return request, None
    plain, level = split_level(request.model)
    if level is None:
        return request, None
    return replace(
        request, model=plain, reasoning=ReasoningWish(effort=level, exclude=request.reasoning.exclude)
    ), level


def control(request: ChatRequest, level: Effort | None, model: router_pb2.Model) -> ReasoningControl:
    """What the provider is told; raise bad_request for a level in the id that the model does not have."""
    if level is not None and level not in model.reasoning_options:
        known = ", ".join(model.reasoning_options)
        has = f"it has {known}" if known else "it has none"
        raise refuse(400, "bad_request", f"{model.id} does not have the reasoning level {level}: {has}")
    return gate(request.reasoning, model.reasoning, model.reasoning_options)
