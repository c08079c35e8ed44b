"""GET /api/public/pricing and GET /api/plans: for price pages, without a key."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from services.edge.public_prices import PublicPrices

router = APIRouter(prefix="/api")


@router.get("/public/pricing", summary="Prices and free limits for price pages", openapi_extra={"security": []})
async def pricing(request: Request) -> JSONResponse:
    """Every model for sale with its prices, the rate of exchange, and what free accounts get."""
    prices: PublicPrices = request.app.state.public_prices
    return JSONResponse(await prices.pricing())


@router.get("/plans", summary="The plans on sale", openapi_extra={"security": []})
async def plans(request: Request) -> JSONResponse:
    """Price, ceilings, models and allowances of each plan on sale."""
    prices: PublicPrices = request.app.state.public_prices
    return JSONResponse(await prices.plans())
