"""GET /.well-known/ccr-provider.json and /.well-known/models.dev.json (contract: Integrations overview)."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from services.edge.manifests import claude_code_router, models_dev

router = APIRouter(prefix="/.well-known")

# As long as a change of the catalogue may take to show.
_FRESH = {"cache-control": "public, max-age=120"}


@router.get("/ccr-provider.json", summary="The provider for Claude Code Router", openapi_extra={"security": []})
async def ccr_provider(request: Request) -> JSONResponse:
    """Base URL, format and the chat models that call functions; no key."""
    state = request.app.state
    return JSONResponse(claude_code_router(state.catalog, state.public_url), headers=_FRESH)


@router.get("/models.dev.json", summary="The provider as a registry of models has it", openapi_extra={"security": []})
async def registry(request: Request) -> JSONResponse:
    """Every chat model with its limits and abilities; prices are 0, since the format has none in Rupiah."""
    state = request.app.state
    return JSONResponse(models_dev(state.catalog, state.public_url), headers=_FRESH)
