"""What a provider's own figures may be before they become somebody's bill.

Called by the chat endpoint. A charge follows the usage a provider reports (contract: How billing works), but a
figure beyond what was asked for is the provider's fault, not the client's debt: then the edge counts itself.
"""

import logging

from kenari.router.v1 import router_pb2

from libs.llm.canonical import ChatRequest, Usage
from libs.ops.telemetry import Telemetry
from services.edge.telemetry import UNBELIEVABLE

log = logging.getLogger("kenari.edge")

# Tokenizers differ from our estimate and some providers count reasoning beside the limit: twice the limit and this
# much passes.
_SLACK = 4_096
# Where no context length is recorded: more than any model takes.
_ANY_CONTEXT = 16_000_000


def most_output(max_tokens: int) -> int:
    """Output tokens beyond which an answer is not the one that was asked for."""
    return 2 * max_tokens + _SLACK


class Believable:
    """Decides which usage is settled, and counts the providers' absurd ones."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._counted = telemetry.metrics.counter(UNBELIEVABLE)

    def settled(
        self, told: Usage | None, own: Usage, request: ChatRequest, model: router_pb2.Model, max_tokens: int
    ) -> tuple[Usage, bool]:
        """The usage to settle and whether it is our estimate: ``told`` if it can be true, else ``own``, bounded."""
        most = most_output(max_tokens)
        if told is not None and _possible(told, request, model, most):
            return told, False
        if told is not None:
            self._counted.inc()
            log.error("a provider reported an impossible usage", extra={"model": model.id, "count": told.completion})
        return Usage(prompt=own.prompt, completion=min(own.completion, most)), True


def _possible(told: Usage, request: ChatRequest, model: router_pb2.Model, most: int) -> bool:
    context = max(model.context_length or _ANY_CONTEXT, request.input_tokens)
    whole = told.cached + told.cache_write <= told.prompt
    return whole and told.completion <= most and told.prompt <= context + context // 8 + _SLACK
