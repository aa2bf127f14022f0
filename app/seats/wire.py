"""What every socket does: hello, receiving within limits, sending to a peer that reads, closing."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import structlog
from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketDisconnected

from app.base.allowance import Allowance
from app.base.clock import random_name
from app.base.errors import Draining, InvalidRequest, NotReady, QuotaExceeded, RateLimited, Unauthenticated
from app.base.lifecycle import Lifecycle
from app.base.off_loop import whose
from app.base.problems import problem_response
from app.edge.auth import Caller, Keys
from app.edge.callers import check_caller, check_url
from app.edge.queries import check_query
from app.edge.quotas import Quotas
from app.protocol.close_codes import Code
from app.protocol.messages import (
    MAX_IDENTIFY,
    SUBPROTOCOL,
    VERSION,
    Hello,
    Refusal,
    message_id,
    read_text,
    refusal,
    refusal_text,
)
from app.seats.limits import BURST, RATE, Strikes, Unidentified
from app.store.trouble import trouble_of
from app.stream.metrics import close_label, frames_in, frames_out, socket_closes
from app.stream.writer import send_at_once
from engine.errors import AvalonError, InvalidInput

__all__ = [
    "REVOKED",
    "STOPS",
    "STRIKES",
    "Closing",
    "Handshakes",
    "SocketTalk",
    "accepted",
    "address_of",
]

log = structlog.get_logger()

BLOCKED_S: Final = 10.0
"""How long a write may wait for the peer to read."""

CLOSING_S: Final = 2.0
"""How long a close frame may wait behind data that the peer has not read. A peer that reads nothing
never gets it; the listening socket's TCP_USER_TIMEOUT ends that connection."""

STRIKES: Final = 3
STRIKES_S: Final = 60.0
"""The third unreadable message within ``STRIKES_S`` seconds ends the connection."""

REVOKED: Final = "this credential is no longer valid"
STOPS: Final = "this replica is stopping"


class Closing(Exception):
    """The server ends the connection with this code and a reason of at most 123 bytes."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def address_of(websocket: WebSocket) -> str:
    """The peer's address; empty if the server does not tell."""
    return websocket.client.host if websocket.client is not None else ""


@dataclass(frozen=True, slots=True)
class Handshakes:
    """The rules for a handshake, and how long a caller may take to identify."""

    lifecycle: Lifecycle
    keys: Keys
    origins: Sequence[str]
    identify_within_s: float
    unidentified: Unidentified

    def check(self, websocket: WebSocket) -> None:
        """Raises AvalonError for a handshake that is refused."""
        if self.lifecycle.draining:
            raise Draining(STOPS)
        check_caller(websocket.scope, keyless=not self.keys.configured, origins=self.origins)
        check_url(websocket.scope)
        check_query(websocket)
        if self.unidentified.is_crowded(address_of(websocket)):
            raise NotReady("too many connections from your address have not identified yet")


async def accepted(websocket: WebSocket, handshakes: Handshakes) -> bool:
    """Accepts a connection. False: it was refused, with a problem."""
    try:
        handshakes.check(websocket)
    except AvalonError as refused:
        await websocket.send_denial_response(problem_response(refused))
        return False
    # A client that offers no subprotocol, or only unknown ones, gets none: hello and identify name the
    # version anyway.
    offered = websocket.scope.get("subprotocols") or ()
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    return True


def _over_quota(refused: QuotaExceeded) -> Closing:
    return Closing(
        Code.RATE, f"retry_after_ms={math.ceil(refused.retry_after_s * 1000)} quota={refused.quota}"
    )


def _check_version(value: Any) -> None:
    """Raises Closing for another version. Comes first: a newer client's identify may have unknown fields."""
    version = value.get("v") if isinstance(value, dict) and value.get("t") == "identify" else None
    if type(version) in (int, float) and version != VERSION:
        raise Closing(Code.VERSION, f"this server speaks version {VERSION}")


T = TypeVar("T")


class SocketTalk:
    """One accepted socket, from hello to close."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._id = f"c_{random_name()}"
        self._last_sent = time.monotonic()
        self._allowance = Allowance(RATE, BURST, self._last_sent)
        self._strikes = Strikes(STRIKES, STRIKES_S)
        self._counted = ExitStack()
        """Until when it counts towards a quota."""
        self._receives: Callable[[int], None] = lambda count: None
        """Counts bytes that came in."""

    async def run(self) -> None:
        """Serves the connection until it has ended. Raises only when cancelled."""
        with self._counted:
            await self._serve()

    async def _serve(self) -> None:
        try:
            await self._talk()
        except Closing as end:
            await self._close(end.code, end.reason)
        except WebSocketDisconnect as disconnect:
            socket_closes.labels(close_label(disconnect.code)).inc()
        except WebSocketDisconnected:
            # A send of the relay found that out before this task did.
            socket_closes.labels("peer").inc()
        except Exception as fault:
            trouble = trouble_of(fault)
            if trouble is not None:
                await self._close(Code.OVERLOADED, f"the database cannot be used now ({trouble.cause})")
                return
            trace_id = random_name()
            log.error("a socket broke", trace_id=trace_id, conn=self._id, exc_info=fault)
            await self._close(Code.INTERNAL, f"trace id {trace_id}")

    async def _talk(self) -> NoReturn:
        """All of the conversation. Raises Closing at its end."""
        raise NotImplementedError

    async def _say_hello(self, identify_within_s: float, idle_s: float) -> None:
        hello = Hello(
            conn=self._id,
            identify_within_ms=math.ceil(identify_within_s * 1000),
            idle_ms=math.ceil(idle_s * 1000),
        )
        await self._send(hello.model_dump_json())

    async def _receive_identify(self, within_s: float, read: Callable[[Any], Any], kind: type[T]) -> T:
        """The first message, which is an identify of this kind; ``read``: makes a message of JSON. Raises
        Closing for anything else.
        """
        text = await self._receive_first(within_s)
        re = None
        try:
            value = read_text(text)
            re = message_id(value)
            _check_version(value)
            message = read(value)
            if not isinstance(message, kind):
                raise InvalidRequest("identify first", "/t", "identify_first")
        except InvalidInput as fault:
            await self._send_refusal(refusal(re, fault))
            raise Closing(Code.MALFORMED, "identify could not be read") from None
        return message

    async def _receive_first(self, within_s: float) -> str:
        """The text of the first message. Raises Closing if it is late or too long."""
        try:
            async with asyncio.timeout(within_s):
                text = await self._receive()
        except TimeoutError:
            raise Closing(Code.SILENT, "no identify in time") from None
        if len(text.encode()) > MAX_IDENTIFY:
            raise Closing(Code.TOO_LARGE, f"identify takes at most {MAX_IDENTIFY} bytes")
        return text

    async def _caller_with(self, keys: Keys, token: str | None) -> Caller:
        """The caller; its connection counts towards its owner's quotas from now on. Raises Closing."""
        try:
            caller = await keys.caller(token)
        except Unauthenticated as refused:
            reason = str(refused) if token is not None else "identify with a token"
            raise Closing(Code.UNAUTHENTICATED, reason) from None
        quotas: Quotas = self._websocket.app.state.quotas
        by_token = caller.grant is not None
        try:
            quotas.admit(caller.owner, by_token=by_token)
            self._counted.enter_context(quotas.open(caller.owner, by_token=by_token))
        except QuotaExceeded as refused:
            raise _over_quota(refused) from None
        self._receives = partial(quotas.receive, caller.owner, by_token=by_token)
        whose.set(caller.owner)
        return caller

    async def _both(
        self, listen: Coroutine[Any, Any, NoReturn], follow: Coroutine[Any, Any, NoReturn]
    ) -> NoReturn:
        """Runs both halves until one of them ends the connection by raising, and cancels the other."""
        halves = [
            asyncio.create_task(listen, name="socket in"),
            asyncio.create_task(follow, name="socket out"),
        ]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = [half for half in halves if half.done()]
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
        try:
            ended[0].result()
        finally:
            # What was raised refers to this call. If this call referred to it as well, the connection and its
            # view of the game would stay in memory until the next collection of garbage.
            del halves, half, ended
        raise AssertionError("a half ends by raising")

    def _strike(self) -> None:
        """Counts an unreadable message. Raises Closing after too many of them."""
        if self._strikes.out(time.monotonic()):
            raise Closing(Code.MALFORMED, "too many messages that cannot be read")

    async def _receive(self) -> str:
        """The next text message.

        Raises Closing for a message that no client may send, WebSocketDisconnect when the peer has gone.
        """
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005), message.get("reason"))
        frames_in.inc()
        text: str | None = message.get("text")
        if text is None:
            raise Closing(Code.BINARY, "text frames only")
        try:
            self._receives(len(text))
        except QuotaExceeded as refused:
            raise _over_quota(refused) from None
        if not self._allowance.spend(time.monotonic()):
            fault = RateLimited("too many messages", self._allowance.refill_s)
            value: Any = None
            # The refusal carries the message's id, where it has one.
            with suppress(InvalidInput):
                value = read_text(text)
            await self._refuse_rate(value, fault)
            raise Closing(Code.RATE, f"retry_after_ms={math.ceil(fault.retry_after_s * 1000)}")
        return text

    async def _refuse_rate(self, value: Any, fault: RateLimited) -> None:
        await self._send_refusal(refusal(message_id(value), fault))

    async def _send_refusal(self, frame: Refusal) -> None:
        await self._send(refusal_text(frame))

    async def _send(self, text: str) -> None:
        """Returns when the ASGI server has taken the text. Raises Closing when the peer does not read."""
        message = {"type": "websocket.send", "text": text}
        if not send_at_once(self._websocket.send(message)):
            try:
                async with asyncio.timeout(BLOCKED_S):
                    await self._websocket.send(message)
            except TimeoutError:
                raise Closing(Code.TOO_SLOW, "the last write did not drain") from None
        self._last_sent = time.monotonic()
        frames_out.inc()

    async def _close(self, code: int, reason: str) -> None:
        socket_closes.labels(str(code)).inc()
        # The peer may be gone or never read again: then nobody gets the close.
        with suppress(WebSocketDisconnect, WebSocketDisconnected, TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await self._websocket.close(code, reason)
