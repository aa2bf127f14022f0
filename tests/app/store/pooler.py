"""A pooler between the service and PostgreSQL, as far as connections begin through it."""

import asyncio
import contextlib
import struct
from typing import Final

from tests.app.seated import Balancer

__all__ = ["Pooler"]

BEGIN: Final = struct.pack("!I", 196_608)
"""With which a client asks for a session, by version 3.0 of the protocol."""

ENCRYPT: Final = struct.pack("!II", 8, 80_877_103)
"""With which a client asks for encryption first."""

PASSED_ON: Final = {b"user", b"database", b"client_encoding", b"application_name"}
"""The settings of a client that PgBouncer knows."""


class Pooler(Balancer):
    """Refuses a session with settings that it does not know, as PgBouncer does; or drops them, as PgBouncer
    does with ``ignore_startup_parameters``.
    """

    def __init__(self, server: str, *, drops: bool) -> None:
        super().__init__([server])
        self._drops = drops

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await reader.readexactly(8)
            if head == ENCRYPT:
                writer.write(b"N")
                head = await reader.readexactly(8)
            body = await reader.readexactly(int.from_bytes(head[:4]) - 8)
            if head[4:] == BEGIN:
                words = body.rstrip(b"\0").split(b"\0")
                settings = dict(zip(words[::2], words[1::2], strict=True))
                unknown = settings.keys() - PASSED_ON
                if unknown and not self._drops:
                    said = b"SFATAL\0C08P01\0Munsupported startup parameter: " + min(unknown) + b"\0\0"
                    writer.write(b"E" + struct.pack("!I", 4 + len(said)) + said)
                    await writer.drain()
                    return
                kept = [name + b"\0" + value + b"\0" for name, value in settings.items() if name in PASSED_ON]
                body = b"".join(kept) + b"\0"
                head = struct.pack("!I", 8 + len(body)) + BEGIN
            reader.feed_data(head + body)
            await super()._carry(reader, writer)
