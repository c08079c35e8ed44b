"""How fast the gateway is and what a request costs, beside a raw ASGI request and beside other gateways.
Run by `make bench` and `make bench-peers` as `python -m tests.bench run|peers`."""
