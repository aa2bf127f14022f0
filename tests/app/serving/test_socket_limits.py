"""What is sent in one turn of the loop is written at once, and nothing of it is lost or held back."""

import asyncio
from typing import cast

from app.serving.socket_limits import GATHERED, Gathering


class Transport:
    """Notes what is written, and when the connection is closed."""

    def __init__(self) -> None:
        self.done: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def abort(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


def gathering() -> tuple[Gathering, Transport]:
    transport = Transport()
    return Gathering(cast(asyncio.Transport, transport), asyncio.get_running_loop()), transport


async def test_what_is_sent_in_a_turn_is_written_together_and_in_order() -> None:
    gathered, transport = gathering()
    gathered.write(b"ack")
    gathered.write(b"event")
    assert transport.done == []
    await asyncio.sleep(0)
    assert transport.done == [b"ackevent"]
    gathered.write(b"next")
    await asyncio.sleep(0)
    assert transport.done == [b"ackevent", b"next"]


async def test_what_waits_is_written_before_the_connection_is_closed() -> None:
    gathered, transport = gathering()
    gathered.write(b"last words")
    gathered.close()
    assert transport.done == [b"last words", "closed"]
    await asyncio.sleep(0)
    assert transport.done == [b"last words", "closed"]


async def test_nothing_is_written_to_a_connection_that_is_gone() -> None:
    gathered, transport = gathering()
    gathered.write(b"to nobody")
    gathered.abort()
    await asyncio.sleep(0)
    assert transport.done == ["closed"]


async def test_much_is_written_at_once_so_that_the_transport_can_say_that_nobody_reads() -> None:
    gathered, transport = gathering()
    for _ in range(4):
        gathered.write(b"x" * (GATHERED // 2))
    assert list(map(len, transport.done)) == [GATHERED // 2 * 3]
    await asyncio.sleep(0)
    assert list(map(len, transport.done)) == [GATHERED // 2 * 3, GATHERED // 2]
