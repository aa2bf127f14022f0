"""The listener in front: passes bytes on, and cuts connections as cables do."""

import asyncio
import contextlib
from typing import Final

from app.base.listening import stop_listening

__all__ = ["Listener"]

_BLOCK: Final = 65_536


class Listener:
    """Listens where the bot connects, and stands before the acted server on another port."""

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: int | None = None

    async def start(self, host: str, port: int) -> int:
        """Begins to listen; the port, where 0 was asked for. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """Ends everything."""
        if self._server is not None:
            await stop_listening(self._server)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Cuts every connection without a goodbye."""
        for writer in list(self._open):
            writer.transport.abort()

    def cut_after(self, passing: int) -> None:
        """Lets so many more bytes through to the bot, then cuts."""
        self._left = passing

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: asyncio reports one of its own that is cancelled as a fault.
        task = asyncio.create_task(self._serve(reader, writer), name="a bot's connection")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._behind)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, back}
        self._open |= ends
        try:
            pumps = [
                asyncio.create_task(self._pump(reader, back, towards_bot=False)),
                asyncio.create_task(self._pump(there, writer, towards_bot=True)),
            ]
            try:
                await asyncio.gather(*pumps)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, towards_bot: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
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
