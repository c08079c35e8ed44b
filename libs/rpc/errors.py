"""Our errors as gRPC statuses and back, with the stable reason kept in ErrorInfo.

Called by libs.rpc.server (out) and libs.rpc.client (in). Business refusals are answers and never pass here.
"""

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from libs.core.errors import KenariError, Permanent, Transient

DOMAIN = "kenari"
# Status and details travel in headers, of which gRPC takes 8 KiB in all.
_LONGEST_TEXT = 1_000

_CODES = {
    "not_found": grpc.StatusCode.NOT_FOUND,
    "already_exists": grpc.StatusCode.ALREADY_EXISTS,
    "failed_precondition": grpc.StatusCode.FAILED_PRECONDITION,
    "deadline": grpc.StatusCode.DEADLINE_EXCEEDED,
    "overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
# Reasons of failures that gRPC itself reports: without an ErrorInfo of ours, resources are the size of a message.
_REASONS = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "deadline",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "too_large",
}
_TRANSIENT_CODES = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
)


def status_code(error: Exception) -> grpc.StatusCode:
    """The status an error travels under; INTERNAL for what is not ours."""
    if not isinstance(error, KenariError):
        return grpc.StatusCode.INTERNAL
    if error.reason in _CODES:
        return _CODES[error.reason]
    if isinstance(error, Transient):
        return grpc.StatusCode.UNAVAILABLE
    if isinstance(error, Permanent):
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.INTERNAL


def to_status(error: Exception) -> grpc.Status:
    """Code, message and ErrorInfo for ``context.abort_with_status``; an internal error keeps its text to itself."""
    code = status_code(error)
    if code is grpc.StatusCode.INTERNAL or not isinstance(error, KenariError):
        return _status(code, "internal", "internal error")
    return _status(code, error.reason, str(error)[:_LONGEST_TEXT])


def _status(code: grpc.StatusCode, reason: str, message: str) -> grpc.Status:
    info = Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN))
    number = code_pb2.Code.Value(code.name)
    status: grpc.Status = rpc_status.to_status(status_pb2.Status(code=number, message=message, details=[info]))
    return status


def from_call(error: grpc.aio.AioRpcError) -> KenariError:
    """The error of ours behind a failed call: Transient if trying again can help, else Permanent."""
    code = error.code()
    told = _reason_in(error)
    reason = told or _REASONS.get(code, code.name.lower())
    passes = code in _TRANSIENT_CODES or (told is not None and code is _CODES["overloaded"])
    return (Transient if passes else Permanent)(error.details() or reason, reason=reason)


def _reason_in(error: grpc.aio.AioRpcError) -> str | None:
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        for detail in status_pb2.Status.FromString(value).details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info) and info.domain == DOMAIN:
                return str(info.reason)
    return None
