"""GET /v1/models (contract: Models and pricing)."""

from fastapi import APIRouter, Request, Response

from services.edge.catalog import MODALITIES, Catalog
from services.edge.errors import refuse

router = APIRouter()


@router.get("/kyara/v1/models", summary="List the models (strict dialect)", openapi_extra={"security": []})
async def list_kyara_models(request: Request) -> Response:
    """The ids the strict dialect accepts."""
    catalog: Catalog = request.app.state.catalog
    return Response(catalog.render(None), media_type="application/json")


@router.get("/v1/models", summary="List the models", openapi_extra={"security": []})
async def list_models(request: Request, modality: str | None = None) -> Response:
    """All models, or those of one kind that is listed only on request."""
    if modality is not None and modality not in MODALITIES:
        accepted = ", ".join(MODALITIES)
        raise refuse(400, "bad_request", f"unknown modality '{modality}'; accepted values: {accepted}")
    catalog: Catalog = request.app.state.catalog
    return Response(catalog.render(modality), media_type="application/json")
