"""The yardstick: the least an ASGI server does for a request. One such request is the unit `u` of CPU cost.
Started as a program by tests.bench.servers: `python raw_asgi.py --port 9902`.
"""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

_BODY = b'{"id":"raw","object":"chat.completion","choices":[]}'.ljust(284)
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(_BODY)).encode())],
}
_END = {"type": "http.response.body", "body": _BODY}


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Read the whole body, answer 284 bytes: as many as the mock provider's plain answer."""
    while (await receive()).get("more_body", False):
        pass
    await send(_START)
    await send(_END)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A raw ASGI application")
    parser.add_argument("--port", type=int, required=True)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=parser.parse_args().port,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
