"""The router as the ledger sees it: the owner of prices.

Made by app.py; used by prices.py.
"""

from kenari.router.v1 import router_pb2, router_pb2_grpc

from libs.core.pricing import Price
from libs.rpc.client import RpcClient


class RouterPrices:
    """Asks for price versions."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._stub = router_pb2_grpc.RouterStub(rpc.channel)

    async def price(self, version: str) -> Price | None:
        """The version, or None when the router has none of that name; raise Transient or Permanent."""
        request = router_pb2.GetPriceRequest(version=version)
        response = await self._rpc.call("router.GetPrice", self._stub.GetPrice, request, retry=True)
        if not response.HasField("price"):
            return None
        price = response.price
        return Price(
            price.version,
            price.input,
            price.output,
            price.cache_read if price.HasField("cache_read") else None,
            price.cache_write if price.HasField("cache_write") else None,
            price.unit if price.HasField("unit") else None,
        )
