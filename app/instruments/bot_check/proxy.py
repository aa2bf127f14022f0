"""A TCP proxy in front of the mock server. It can cut connections as a broken cable would."""

import asyncio
import contextlib
from typing import Final

from app.base.listening import stop_listening
from app.base.tasks import end_tasks

__all__ = ["Proxy"]

_BLOCK: Final = 65_536


class Proxy:
    """Listens on the port that the bot connects to, and passes bytes to and from the mock server's port."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: int | None = None

    async def start(self, host: str, port: int) -> int:
        """Begins to listen; port 0 takes a free one. Returns the port. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stops listening, and ends every connection."""
        if self._server is not None:
            await stop_listening(self._server)
        await end_tasks(*self._tasks)

    def cut(self) -> None:
        """Cuts every connection without a closing handshake."""
        for writer in list(self._open):
            writer.transport.abort()

    def cut_after(self, passing: int) -> None:
        """Cuts every connection after ``passing`` more bytes have gone to the bot."""
        self._left = passing

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Our own task: asyncio would log the cancellation of its own as an error.
        task = asyncio.create_task(self._serve(reader, writer), name="a bot's connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        writers = {writer, server_writer}
        self._open |= writers
        try:
            pumps = [
                asyncio.create_task(self._pump(reader, server_writer, towards_bot=False)),
                asyncio.create_task(self._pump(server_reader, writer, towards_bot=True)),
            ]
            try:
                await asyncio.gather(*pumps)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._open -= writers
            for end in writers:
                end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, towards_bot: bool
    ) -> None:
        # An end that is gone is no error. Passing on that the other one has ended then gives an OSError.
        with contextlib.suppress(OSError):
            while data := await reader.read(_BLOCK):
                if towards_bot and self._left is not None:
                    data, left = data[: self._left], self._left - len(data)
                    self._left = max(left, 0)
                    if left <= 0:
                        self._left = None
                        writer.write(data)
                        await writer.drain()
                        self.cut()
                        return
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
