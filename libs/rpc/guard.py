"""What happens around every call a server answers: deadline, errors, traces, metrics, and an end for streams.

Called by libs.rpc.server, once per server.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import grpc

from libs.ops.telemetry import Telemetry
from libs.rpc import deadlines
from libs.rpc.errors import to_status
from libs.rpc.telemetry import SERVED

log = logging.getLogger("kenari.rpc")

# Asked by tools that set no deadline.
_FREE = ("/grpc.health", "/grpc.reflection")

Handler = Callable[[Any, Any], Any]


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc ships no types
    """Refuses unary calls without a deadline, maps our errors, and opens a span and a measurement per unary call."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._tracing = telemetry.tracing
        self._served = telemetry.metrics.histogram(SERVED)
        self._streams: set[asyncio.Task[Any]] = set()
        self._stopping = False

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(details)
        method = details.method
        if handler is None:
            return None
        if handler.response_streaming:
            return self._streaming(handler, method)
        traceparent = next((str(v) for k, v in details.invocation_metadata or () if k == "traceparent"), "")

        async def guarded(request: Any, context: Any) -> Any:
            return await self._call(handler.unary_unary, method, traceparent, request, context)

        return grpc.unary_unary_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)

    def end_streams(self) -> None:
        """End the open streams: they would hold up the stop of the server until its grace is over."""
        self._stopping = True
        for task in self._streams:
            task.cancel()

    async def _call(self, inner: Handler, method: str, traceparent: str, request: Any, context: Any) -> Any:
        remaining = context.time_remaining()
        if remaining is None and not method.startswith(_FREE):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a call needs a deadline")
        deadlines.enter(remaining if remaining is not None else 60.0)
        started = time.perf_counter()
        code = grpc.StatusCode.OK
        try:
            with self._tracing.span(method.lstrip("/"), parent=traceparent, kind="server"):
                return await inner(request, context)
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except grpc.aio.BaseError:
            # The handler ended the call itself.
            code = context.code() or grpc.StatusCode.UNKNOWN
            raise
        except Exception as error:
            # The outermost guard: of what is not ours, the caller learns nothing but that it failed.
            status = _told(error, method)
            code = status.code
            await context.abort_with_status(status)
        finally:
            self._served.labels(method, code.name).observe(time.perf_counter() - started)

    def _streaming(self, handler: Any, method: str) -> Any:
        inner: Handler = handler.stream_stream or handler.unary_stream

        async def guarded(request: Any, context: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._streams.add(task)
            try:
                await _stream(inner, request, context)
            except asyncio.CancelledError:
                if not self._stopping:
                    raise
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
            except grpc.aio.BaseError:
                raise
            except Exception as error:
                await context.abort_with_status(_told(error, method))
            finally:
                self._streams.discard(task)

        make = (
            grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
        )
        return make(guarded, handler.request_deserializer, handler.response_serializer)


async def _stream(inner: Handler, request: Any, context: Any) -> None:
    """Run a handler of either kind: one that writes by itself or one that yields its answers."""
    if not inspect.isasyncgenfunction(inner):
        await inner(request, context)
        return
    async with aclosing(inner(request, context)) as answers:
        async for answer in answers:
            await context.write(answer)


def _told(error: Exception, method: str) -> grpc.Status:
    status = to_status(error)
    if status.code is grpc.StatusCode.INTERNAL:
        log.error("call failed", exc_info=error, extra={"method": method})
    return status
