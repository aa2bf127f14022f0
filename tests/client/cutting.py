"""A TCP proxy that cuts: what stands between a client and the service on a bad day."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

from app.base.listening import stop_listening

__all__ = ["Proxy", "cutting"]


class Proxy:
    """Passes bytes on, and cuts connections without a goodbye: by hand, or after so many bytes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self.cuts = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._limits: random.Random | None = None
        self._most = 0
        self._left = 0

    def cut_at_random(self, times: int, most: int, seed: int) -> None:
        """Cuts the next ``times`` connections, each after at most so many bytes from the service."""
        self._limits, self._most, self._left = random.Random(seed), most, times

    def cut(self) -> None:
        """Cuts everything that is open."""
        for writer in list(self._open):
            writer.transport.abort()
        self.cuts += bool(self._open)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            up_reader, up = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, up}
        limit = None
        if self._limits is not None and self._left:
            self._left -= 1
            limit = self._limits.randrange(1, self._most)
        down = self._pump(up_reader, writer, limit)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(down)
                group.create_task(self._pump(reader, up, None))
        finally:
            self._open -= {writer, up}
            for one in (writer, up):
                one.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None
    ) -> None:
        passed = 0
        # OSError: the other end of a connection that just broke cannot be told of an end.
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if limit is not None and passed + len(data) >= limit:
                    # The last bytes before a cut: a frame may end in its middle.
                    writer.write(data[: limit - passed])
                    await writer.drain()
                    self.cuts += 1
                    self.cut_one(writer)
                    return
                passed += len(data)
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    def cut_one(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def cutting(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """A proxy before the service at ``url``, and the URL to use instead."""
    proxy = Proxy(int(url.rpartition(":")[2]))
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, f"http://127.0.0.1:{proxy.port}"
    finally:
        await stop_listening(server)
        for task in list(proxy._tasks):
            task.cancel()
        await asyncio.gather(*proxy._tasks, return_exceptions=True)
