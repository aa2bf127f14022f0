"""Many sockets that count what they get, cheaply enough that the server is what is measured.

No library and no loop: one epoll, one buffer. Frames are walked over, pings answered, closes noted; events
are counted by their ``{"seq":``, which no player's text can contain, since its quotes are escaped.
"""

import contextlib
import errno
import json
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["Crowd", "Onlooker", "identify", "masked"]

EVENT: Final = b'{"seq":'

JOIN_S: Final = 120.0
"""Seconds; no part of a crowd waits longer to be let in."""

_TEXT, _CLOSE, _PING = 0x1, 0x8, 0x9


def identify(game: str, after: int = 0, viewer: str = "public") -> bytes:
    """The first message, as a masked text frame; the mask is zero, which servers must accept."""
    text = json.dumps({"t": "identify", "v": 1, "game": game, "after": after, "viewer": viewer}).encode()
    return masked(_TEXT, text)


def masked(opcode: int, payload: bytes) -> bytes:
    head = (
        bytes((0x80 | opcode, 0x80 | len(payload)))
        if len(payload) < 126
        else struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, len(payload))
    )
    return head + b"\0\0\0\0" + payload


class Onlooker:
    """One socket."""

    __slots__ = (
        "_greeting", "_rest", "_skip", "_tail", "close_code", "events", "frames", "open", "sock", "times",
        "upgraded",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, greeting: bytes, *, timed: bool) -> None:
        self.sock = sock
        self._greeting = greeting
        """What is sent once the connection is upgraded; empty: nothing."""
        self._rest = b""
        """The incomplete beginning of a frame's head, or of the answer to the upgrade."""
        self._skip = 0
        """Bytes of the current frame that are still to come."""
        self._tail = b""
        self.upgraded = False
        self.open = True
        self.events = 0
        self.frames = 0
        """Text frames, hello and welcome among them."""
        self.close_code: int | None = None
        self.times: list[float] | None = [] if timed else None
        """When each event came, on the machine's monotonic clock."""

    @property
    def is_in(self) -> bool:
        """Whether it has been upgraded and, if it sends a greeting, has got hello and welcome."""
        return self.upgraded and (not self._greeting or self.frames >= 2)

    def upgrade(self, path: str) -> None:
        self.sock.send(
            (
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            ).encode()
        )

    def take(self, data: bytes) -> None:
        """Takes bytes that were read from the socket. Raises RuntimeError if it was not upgraded."""
        if not self.upgraded:
            head, found, data = (self._rest + data).partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            if not head.startswith(b"HTTP/1.1 101"):
                raise RuntimeError(f"not upgraded: {head[:80]!r}")
            self._rest = b""
            self.upgraded = True
            if self._greeting:
                self.sock.send(self._greeting)
        found_events = (self._tail + data).count(EVENT)
        self._tail = (self._tail + data[-len(EVENT) :])[-len(EVENT) + 1 :]
        if found_events:
            self.events += found_events
            if self.times is not None:
                self.times += [time.monotonic()] * found_events
        self._walk(data)

    def _walk(self, data: bytes) -> None:
        at = self._skip
        size = len(data)
        if at > size:
            self._skip = at - size
            return
        if self._rest:
            data, at, self._rest = self._rest + data, 0, b""
            size = len(data)
        while at < size:
            length, body = data[at + 1] if at + 1 < size else 0, at + 2
            if length == 126:
                body += 2
            elif length == 127:
                body += 8
            if body > size:
                self._rest, self._skip = data[at:], 0
                return
            if length >= 126:
                length = int.from_bytes(data[at + 2 : body], "big")
            opcode = data[at] & 0xF
            if opcode == _TEXT:
                self.frames += 1
            elif body + length > size:  # a control frame in two pieces
                self._rest, self._skip = data[at:], 0
                return
            elif opcode == _PING:
                self.sock.send(masked(0xA, data[body : body + length]))
            elif opcode == _CLOSE:
                self.close_code = int.from_bytes(data[body : body + 2], "big") or 1005
            at = body + length
        self._skip = at - size


class Crowd:
    """Onlookers, perhaps of several servers: all are read, so that all answer pings."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._by_fd: dict[int, Onlooker] = {}
        self._buffer = bytearray(1 << 18)
        self._view = memoryview(self._buffer)

    @property
    def members(self) -> list[Onlooker]:
        return list(self._by_fd.values())

    def join(
        self, port: int, orders: Sequence[tuple[str, bytes]], *, timed: bool = False, at_once: int = 100
    ) -> list[Onlooker]:
        """Connects for each (path, greeting), ``at_once`` of them at a time.

        Returns when all have been upgraded and, if they send a greeting, welcomed. Raises RuntimeError for
        one that was closed, TimeoutError after ``JOIN_S``.
        """
        joined: list[Onlooker] = []
        for first in range(0, len(orders), at_once):
            waiting = [
                self._connect(port, path, greeting, timed)
                for path, greeting in orders[first : first + at_once]
            ]
            joined += waiting
            give_up = time.monotonic() + JOIN_S
            while waiting:
                self.turn()
                while waiting and waiting[-1].is_in:
                    waiting.pop()
                if waiting and not waiting[-1].open:
                    raise RuntimeError(f"closed with {waiting[-1].close_code} before it was let in")
                if time.monotonic() > give_up:
                    raise TimeoutError(f"{len(waiting)} sockets not let in after {JOIN_S:g} s")
        return joined

    def _connect(self, port: int, path: str, greeting: bytes, timed: bool) -> Onlooker:
        sock = socket.socket()
        # Blocking until the kernel has shaken hands, which needs no server to run: its backlog takes 2,048.
        sock.connect(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        one = Onlooker(sock, greeting, timed=timed)
        self._by_fd[sock.fileno()] = one
        self._poll.register(sock.fileno(), select.EPOLLIN)
        one.upgrade(path)
        return one

    def turn(self, timeout_s: float = 0.05) -> int:
        """Reads once what there is to read. Returns how many sockets had something."""
        ready = self._poll.poll(timeout_s, 1024)
        for fd, _ in ready:
            one = self._by_fd[fd]
            try:
                count = one.sock.recv_into(self._buffer)
            except OSError as fault:
                if fault.errno in (errno.EAGAIN, errno.EWOULDBLOCK):
                    continue
                count = 0
            if count:
                one.take(bytes(self._view[:count]))
            else:
                self._drop(fd)
        return len(ready)

    def until_events(self, wanted: int, within_s: float, members: Iterable[Onlooker]) -> None:
        """Reads until every one of these has had exactly so many events. Raises RuntimeError for one that has
        more or was closed, TimeoutError after ``within_s``.
        """
        waiting = list(members)
        give_up = time.monotonic() + within_s
        while True:
            # Only the one looked at last is asked until it is there: one look a turn, not one a member.
            while waiting and waiting[-1].events >= wanted:
                if waiting[-1].events > wanted:
                    raise RuntimeError(f"{waiting[-1].events} events where {wanted} were sent")
                waiting.pop()
            if not waiting:
                return
            if not waiting[-1].open:
                raise RuntimeError(f"closed with {waiting[-1].close_code} after {waiting[-1].events} events")
            self.turn()
            if time.monotonic() > give_up:
                raise TimeoutError(f"{len(waiting)} sockets without {wanted} events after {within_s:g} s")

    def leave(self) -> None:
        """Cuts every connection, without a close frame."""
        for fd, one in list(self._by_fd.items()):
            # A reset, so that no address waits: a bench opens more sockets than there are ports.
            one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        one = self._by_fd.pop(fd)
        one.open = False
        with contextlib.suppress(OSError):
            self._poll.unregister(fd)
        one.sock.close()

    def close(self) -> None:
        self.leave()
        self._poll.close()
