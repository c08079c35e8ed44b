"""What the reading endpoints share: the caller as a dependency, and errors in the OpenAI envelope.

Used by the modules beside it; hot endpoints do not come here.
"""

import logging
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from libs.core.errors import KenariError
from libs.llm.failures import ApiError
from libs.llm.formats import openai_chat
from services.edge.callers import Callers
from services.edge.errors import PlainRefusedError, RefusedError, refuse
from services.edge.exchange import Exchange
from services.edge.keys import Caller

log = logging.getLogger("kenari.edge")

READ_FAILED = ApiError(
    status=500, code="internal_error", type="api_error", message="the account could not be read; retry once"
)


async def _caller(request: Request) -> Caller:
    callers: Callers = request.app.state.callers
    exchange: Exchange = request.state.exchange
    return await callers.caller(exchange)


AnyCaller = Annotated[Caller, Depends(_caller)]


async def _own_unrestricted(caller: AnyCaller) -> Caller:
    _refuse_shared(caller)
    if caller.restricted:
        message = "a restricted key has no access to account data or keys; use a key without model scope or caps"
        raise refuse(403, "restricted_key_not_allowed", message, kind="permission_error")
    return caller


async def _own(caller: AnyCaller) -> Caller:
    _refuse_shared(caller)
    return caller


async def _key_manager(caller: Annotated[Caller, Depends(_own_unrestricted)]) -> Caller:
    if not caller.manages_keys:
        message = "only the key saved by `kenari login` manages per-tool keys; run `kenari login` and use its key"
        raise refuse(403, "cli_login_key_required", message, kind="permission_error")
    return caller


UnrestrictedCaller = Annotated[Caller, Depends(_own_unrestricted)]
OwnCaller = Annotated[Caller, Depends(_own)]
KeyManager = Annotated[Caller, Depends(_key_manager)]


def _refuse_shared(caller: Caller) -> None:
    if caller.shared:
        message = "a shared key has no access to account data or keys; use a key of the account itself"
        raise refuse(403, "shared_key_not_allowed", message, kind="permission_error")


def render(error: ApiError, headers: dict[str, str] | None = None) -> Response:
    """An error as a response."""
    status, body = openai_chat.FORMAT.render_error(error)
    return Response(body, status, headers, "application/json")


def install_handlers(app: FastAPI) -> None:
    """Map our errors to answers; what nobody expected becomes a 500 that says nothing of its cause."""

    @app.exception_handler(RefusedError)
    async def _refused(_: Request, error: RefusedError) -> Response:
        headers = {name.decode(): value.decode() for name, value in error.headers}
        return render(error.error, headers)

    @app.exception_handler(PlainRefusedError)
    async def _plain(_: Request, error: PlainRefusedError) -> Response:
        # What is left of a body that came too slowly is not waited for.
        headers = {"connection": "close"} if error.status == 408 else None
        return PlainTextResponse(error.text, error.status, headers)

    @app.exception_handler(KenariError)
    async def _failed(request: Request, error: KenariError) -> Response:
        log.error("read failed", extra={"reason": error.reason, "path": request.url.path})
        return render(READ_FAILED)

    @app.exception_handler(404)
    async def _unknown_path(_: Request, __: Exception) -> Response:
        return PlainTextResponse("not found", 404)
