"""Calls the providers a route names, one after another, until one answers; only before the first content.

Called by the chat endpoint. Each try is reported for the health of its upstream.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import cache
from typing import TypeVar

from kenari.router.v1 import router_pb2

from libs.llm.canonical import Answer, ChatRequest, StreamEvent
from libs.llm.failures import ApiError, FailureKind, ProviderFailure
from libs.llm.providers import Providers
from libs.llm.providers.base import Abilities, Target, Told
from libs.llm.reasoning import ReasoningControl
from libs.ops.tracing import Tracing
from services.edge.admitted import Admitted
from services.edge.errors import RefusedError
from services.edge.reports import Reports, Run

Result = TypeVar("Result")

_FORMATS = {
    router_pb2.PROVIDER_FORMAT_OPENAI_CHAT: "openai_chat",
    router_pb2.PROVIDER_FORMAT_SIMULATED: "simulated",
    router_pb2.PROVIDER_FORMAT_ANTHROPIC: "anthropic",
    router_pb2.PROVIDER_FORMAT_OPENAI_RESPONSES: "openai_responses",
    router_pb2.PROVIDER_FORMAT_GEMINI: "gemini",
}

_OTHERS_MAY_SERVE = ("model_not_found", "upstream_error")
"""Rejections that say more of the provider than of the request: it lacks the model, or something before it refused."""

_CONTENT_TIMEOUT_MS = 600_000
"""Where the router names none."""


@cache
def _abilities(json_format: bool, cache_marks: bool, adaptive_thinking: bool) -> Abilities:
    return Abilities(json_format=json_format, cache_marks=cache_marks, adaptive_thinking=adaptive_thinking)


class Attempts:
    """Runs the attempts of a route in order, waiting for a rate-limited provider only if it is short."""

    def __init__(self, providers: Providers, reports: Reports, longest_wait_s: float, tracing: Tracing) -> None:
        self._providers = providers
        self._tracing = tracing
        self._reports = reports
        self._longest_wait_s = longest_wait_s

    async def complete(self, run: Run, request: ChatRequest, admitted: Admitted) -> Answer:
        """The whole answer of the first provider that gives one; raise RefusedError when none does."""

        async def once(attempt: router_pb2.Attempt) -> Answer:
            adapter = self._providers.get(_FORMATS[attempt.format])
            answer = await adapter.complete(request, _target(attempt, admitted.reasoning), admitted.max_tokens)
            run.first_content()
            self._reports.attempt(run, "completed", output_tokens=answer.usage.completion if answer.usage else 0)
            return answer

        return await self._until_one_answers(run, admitted, once)

    async def open_stream(self, run: Run, request: ChatRequest, admitted: Admitted) -> "OpenStream":
        """A stream that has brought its first content; raise RefusedError when no provider gives one."""

        async def once(attempt: router_pb2.Attempt) -> OpenStream:
            adapter = self._providers.get(_FORMATS[attempt.format])
            told = Told()
            batches = adapter.stream(request, _target(attempt, admitted.reasoning), admitted.max_tokens, told)
            try:
                first = await anext(batches)
            except BaseException:
                await batches.aclose()
                raise
            run.first_content()
            return OpenStream(first, batches, told)

        return await self._until_one_answers(run, admitted, once)

    async def _until_one_answers(
        self, run: Run, admitted: Admitted, once: Callable[[router_pb2.Attempt], Awaitable[Result]]
    ) -> Result:
        failures: list[ProviderFailure] = []
        providers = 0
        patience_s = self._longest_wait_s
        left = deque(admitted.route.attempts)
        while left or await _next_model(admitted, left):
            attempt = left.popleft()
            providers += 1
            while True:
                run.begin_attempt(attempt.upstream_id, admitted.route.model.id)
                try:
                    # Of a stream this is the time to its first content.
                    with self._tracing.span("provider.attempt", kind="client") as span:
                        run.describe(span)
                        return await once(attempt)
                except ProviderFailure as failure:
                    failures.append(failure)
                    self._reports.attempt(run, failure.kind.value, failure)
                    if _ends_it(failure, on_route=admitted.others is not None):
                        raise RefusedError(failure.api_error()) from failure
                    wait_s = _short_wait(failure, patience_s)
                    if wait_s is None:
                        break
                    patience_s -= wait_s
                    await asyncio.sleep(wait_s)
                except asyncio.CancelledError:
                    self._reports.attempt(run, "client_closed")
                    raise
        raise RefusedError(_all_failed(failures, providers))


class OpenStream:
    """A provider's stream from its first content on; ``told`` knows its usage, maybe before the end."""

    def __init__(self, first: list[StreamEvent], batches: AsyncGenerator[list[StreamEvent], None], told: Told) -> None:
        self.told = told
        self._first = first
        self._batches = batches

    async def events(self) -> AsyncGenerator[list[StreamEvent], None]:
        """What each read brought; iterate under ``aclosing``, leaving early ends the call at the provider."""
        async with aclosing(self._batches):
            yield self._first
            async for events in self._batches:
                yield events


async def _next_model(admitted: Admitted, left: deque[router_pb2.Attempt]) -> bool:
    """Turn to the route's next model and put its attempts into ``left``; False when there is none."""
    if not await admitted.go_on():
        return False
    left.extend(admitted.route.attempts)
    return True


def _ends_it(failure: ProviderFailure, *, on_route: bool) -> bool:
    """Whether nobody else is asked: a rejected request, on a route only one that is too long."""
    if failure.kind is not FailureKind.REJECTED:
        return False
    return failure.code == "context_length_exceeded" if on_route else failure.code not in _OTHERS_MAY_SERVE


def _short_wait(failure: ProviderFailure, patience_s: float) -> float | None:
    """How long to wait before asking the same provider again; None means to go on to the next."""
    if failure.kind is not FailureKind.RATE_LIMITED or failure.retry_after_ms is None:
        return None
    wait_s = max(failure.retry_after_ms / 1000, 0.05)
    return wait_s if wait_s <= patience_s else None


def _all_failed(failures: list[ProviderFailure], providers: int) -> ApiError:
    kinds = {failure.kind for failure in failures}
    # What they all say alike is the answer; where they differ, none is.
    if providers == 1 or kinds in ({FailureKind.RATE_LIMITED}, {FailureKind.REJECTED}):
        return failures[-1].api_error()
    message = "every provider that was asked failed; retry with backoff or use another model"
    return ApiError(status=503, code="all_providers_failed", message=message)


def _target(attempt: router_pb2.Attempt, reasoning: ReasoningControl) -> Target:
    return Target(
        base_url=attempt.base_url,
        model=attempt.upstream_model,
        credential=attempt.credential,
        upstream=attempt.upstream_id,
        connect_s=attempt.connect_timeout_ms / 1000,
        first_byte_s=attempt.first_byte_timeout_ms / 1000,
        idle_s=attempt.idle_timeout_ms / 1000,
        content_s=(attempt.content_timeout_ms or _CONTENT_TIMEOUT_MS) / 1000,
        abilities=_abilities(attempt.json_format, attempt.cache_marks, attempt.adaptive_thinking),
        reasoning=reasoning,
    )
