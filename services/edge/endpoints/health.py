"""GET /health: whether this gateway takes requests; for load balancers and people."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

router = APIRouter()


@router.get("/health", summary="Whether the gateway takes requests", openapi_extra={"security": []})
async def health(request: Request) -> JSONResponse:
    """200 while requests are taken, 503 while starting or stopping; details stay on the ops port."""
    problems: Callable[[], list[str]] = request.app.state.problems
    ready = not problems()
    return JSONResponse({"status": "ok" if ready else "unavailable"}, 200 if ready else 503)
