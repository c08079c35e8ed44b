"""Idempotency keys on the wire. Refusals are answers.

Called by the edge, for requests that name such a key.
"""

from typing import Any

from kenari.ledger.v1 import idempotency_pb2, idempotency_pb2_grpc

from services.ledger.idempotency import Found, Idempotency, IdempotencyKey, Outcome, State

NAME = "kenari.ledger.v1.Idempotency"


class IdempotencyRpc(idempotency_pb2_grpc.IdempotencyServicer):
    """Servicer of ``kenari.ledger.v1.Idempotency``."""

    def __init__(self, idempotency: Idempotency) -> None:
        self._idempotency = idempotency

    async def Begin(self, request: idempotency_pb2.BeginRequest, context: Any) -> idempotency_pb2.BeginResponse:
        return _begun(await self._idempotency.begin(_key(request.key), request.request_id, request.fingerprint))

    async def End(self, request: idempotency_pb2.EndRequest, context: Any) -> idempotency_pb2.EndResponse:
        free = request.WhichOneof("ends") == "freed"
        ends = _outcome(request.outcome) if request.HasField("outcome") else None
        await self._idempotency.end(_key(request.key), request.request_id, ends, free=free)
        return idempotency_pb2.EndResponse()


def _key(message: idempotency_pb2.IdempotencyKey) -> IdempotencyKey:
    return IdempotencyKey(message.account_id, message.key_id, message.key)


def _outcome(message: idempotency_pb2.KeptAnswer) -> Outcome:
    headers = tuple((header.name, header.value) for header in message.headers)
    return Outcome(message.status, headers, message.body)


def _begun(found: Found) -> idempotency_pb2.BeginResponse:
    named = idempotency_pb2.Named(request_id=found.request_id)
    match found.state:
        case State.CLAIMED:
            return idempotency_pb2.BeginResponse(claimed=idempotency_pb2.Claimed())
        case State.RUNNING:
            return idempotency_pb2.BeginResponse(running=named)
        case State.REUSED:
            return idempotency_pb2.BeginResponse(reused=named)
        case State.LOST:
            return idempotency_pb2.BeginResponse(lost=named)
        case State.KEPT:
            assert found.outcome is not None
            outcome = idempotency_pb2.KeptAnswer(
                request_id=found.request_id,
                status=found.outcome.status,
                headers=[idempotency_pb2.Header(name=name, value=value) for name, value in found.outcome.headers],
                body=found.outcome.body,
            )
            return idempotency_pb2.BeginResponse(outcome=outcome)
