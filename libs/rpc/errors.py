"""Our errors as gRPC statuses and back, with the stable reason kept in ErrorInfo.

Called by libs.rpc.server (out) and libs.rpc.client (in). Business refusals are answers and never pass here.
"""

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from libs.core.errors import KenariError, Permanent, Transient

DOMAIN = "kenari"

_CODES = {
    "not_found": grpc.StatusCode.NOT_FOUND,
    "already_exists": grpc.StatusCode.ALREADY_EXISTS,
    "failed_precondition": grpc.StatusCode.FAILED_PRECONDITION,
    "deadline": grpc.StatusCode.DEADLINE_EXCEEDED,
    "overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
}
_TRANSIENT_CODES = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}
)


def status_code(error: KenariError) -> grpc.StatusCode:
    """The status an error of ours travels under."""
    if error.reason in _CODES:
        return _CODES[error.reason]
    if isinstance(error, Transient):
        return grpc.StatusCode.UNAVAILABLE
    if isinstance(error, Permanent):
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.INTERNAL


def to_status(error: KenariError) -> grpc.Status:
    """Code, message and ErrorInfo for ``context.abort_with_status``."""
    code = status_code(error)
    info = Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    number = code_pb2.Code.Value(code.name)
    status: grpc.Status = rpc_status.to_status(status_pb2.Status(code=number, message=str(error), details=[info]))
    return status


def from_call(error: grpc.aio.AioRpcError) -> KenariError:
    """The error of ours behind a failed call: Transient if trying again can help, else Permanent."""
    reason = error.code().name.lower()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            reason = _reason_in(value) or reason
    kind = Transient if error.code() in _TRANSIENT_CODES else Permanent
    return kind(error.details() or reason, reason=reason)


def _reason_in(details: bytes) -> str | None:
    status = status_pb2.Status.FromString(details)
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            return str(info.reason)
    return None
