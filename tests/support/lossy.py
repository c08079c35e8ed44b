"""A line between two processes that can swallow what the far end answers, and then break.
Used by tests of answers that were given and never arrived.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from deploy.local.ports import pick_free_port


class LossyLine:
    """Forwards connections to ``target`` (host:port). ``lose`` may be called from any thread."""

    def __init__(self, target: str) -> None:
        host, port = target.split(":")
        self._target = (host, int(port))
        self._port = pick_free_port()
        self._losing = threading.Event()
        self.lost = threading.Event()
        """Something has been swallowed."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def lose(self) -> None:
        """From now on answers get lost; a second later the connections break, and those made anew are whole again."""
        self._losing.set()

    async def serve(self) -> None:
        """Forward until cancelled."""
        async with await asyncio.start_server(self._connected, "127.0.0.1", self._port) as server:
            await server.serve_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        ways = [
            asyncio.create_task(self._forward(reader, far_writer, loses=False)),
            asyncio.create_task(self._forward(far_reader, writer, loses=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, far_writer):
                end.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, loses: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if loses and self._losing.is_set():
                    self.lost.set()
                    # What the far end does in answer to the request is done by then.
                    await asyncio.sleep(1.0)
                    self._losing.clear()
                    return
                writer.write(data)
                await writer.drain()


@contextlib.contextmanager
def lossy_line(target: str) -> Iterator[LossyLine]:
    """A line in a thread of its own."""
    line = LossyLine(target)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving = asyncio.run_coroutine_threadsafe(line.serve(), loop)
    try:
        yield line
    finally:
        serving.cancel()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
