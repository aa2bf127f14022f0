"""A seat of a game, played by this program."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Self

from interintent_client.errors import ApiError, GameOver, InterIntentError, Refused, Unacknowledged
from interintent_client.http import Http
from interintent_client.records import Ack, Event, Json, Request, wire
from interintent_client.stream import Stream

__all__ = ["Choose", "Seat"]

ASKED_AGAIN: Final = frozenset({"illegal-action", "invalid-action"})
"""Codes of refusals after which the same request stays open, as long as attempts are left."""

LATE_S: Final = 5.0
"""Seconds after the deadline for which the client awaits an acknowledgement before it asks over HTTP."""

SETTLING_S: Final = 20.0
"""Seconds for which the client keeps asking the server about an answer to a request that has closed."""

Choose = Callable[[Request, Sequence[Event]], Json | Awaitable[Json]]
"""Chooses the answer to a request, given the request and every event that the seat has seen."""


class Seat:
    """Iterating gives each request of the seat once, and again after each refused answer.

    ``act`` returns when the server has committed the answer, over however many connections. The caller
    does not notice broken connections.
    """

    def __init__(self, stream: Stream, http: Http, path: str, token: Callable[[], str | None]) -> None:
        self._stream = stream
        self._http = http
        self._path = path
        self._token = token
        self.events: list[Event] = []
        """Every event that this seat has been shown, oldest first."""
        self._open: Request | None = None
        self._given: str | None = None
        self._ended = False
        self._fault: Exception | None = None
        self._news = asyncio.Event()
        self._waiting: dict[str, tuple[Json, asyncio.Future[Ack | None]]] = {}
        self._ids = (f"{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leaves the seat. The game goes on, and the defaults are played for this seat."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def __aiter__(self) -> AsyncIterator[Request]:
        return self._requests()

    async def _requests(self) -> AsyncIterator[Request]:
        self._start()
        while True:
            self._news.clear()
            if self._open is not None and self._given != self._open.request_id:
                self._given = self._open.request_id
                yield self._open
            elif self._ended:
                if self._fault is not None:
                    raise self._fault
                return
            else:
                await self._news.wait()

    async def act(
        self, request: Request, action: Json, thoughts: Sequence[Json] = (), *, message_id: str | None = None
    ) -> Ack:
        """Sends an answer, repeatedly if necessary, and returns when the server has committed it. The answer
        counts once.

        When the request closes before the answer is acknowledged (another request opens, its deadline
        passes, the game ends), the client asks the server over HTTP whether the answer counted. Raises
        Refused for a refused answer (after ``illegal-action`` and ``invalid-action`` the seat is asked
        again); Unacknowledged when the server does not say, or GameOver if the game has ended; Closed or
        Unreachable when the connection is lost for good; and ValueError for an answer that is not JSON or
        too large for a message, or a ``message_id`` that is still in use.
        """
        self._start()
        name = message_id or next(self._ids)
        if name in self._waiting:
            raise ValueError(f"the answer {name} is still waiting: a new answer needs a new message_id")
        message: dict[str, Any] = {
            "t": "act",
            "id": name,
            "request_id": request.request_id,
            "action": action,
        }
        if thoughts:
            message["thoughts"] = list(thoughts)
        size, limit = len(wire(message).encode()), self._stream.max_message
        if size > limit:
            # The server would close the connection, and with it the seat.
            raise ValueError(f"an answer with its thoughts has at most {limit:,} bytes, got {size:,}")
        closed = Unacknowledged(f"{request.request_id} closed before its answer was acknowledged")
        if self._ended:
            return await self._over_http(message, self._over(request.request_id))
        if self._open is not None and self._open.request_id != request.request_id:
            return await self._over_http(message, closed)
        waiting: asyncio.Future[Ack | None] = asyncio.get_running_loop().create_future()
        self._waiting[name] = message, waiting
        left_s = None if request.ttl_ms is None else request.ttl_ms / 1000 + LATE_S
        allowed = asyncio.timeout(left_s)
        try:
            async with allowed:
                await self._stream.send(message)
                ack = await waiting
        except GameOver as over:
            return await self._over_http(message, over)
        except TimeoutError:
            if not allowed.expired():
                raise
            ack = None
        finally:
            del self._waiting[name]
        return await self._over_http(message, closed) if ack is None else ack

    async def play(
        self, choose: Choose, on_refusal: Callable[[Refused], object] | None = None
    ) -> list[Event]:
        """Plays the seat to the end of the game and returns every event that it has seen.

        A refused answer is passed to ``on_refusal``. While its request is open, ``choose`` is called again.
        An answer that came too late costs only that move.
        """
        async for request in self:
            choice = choose(request, self.events)
            action = await choice if isinstance(choice, Awaitable) else choice
            try:
                await self.act(request, action)
            except Refused as refused:
                if on_refusal is not None:
                    on_refusal(refused)
            except Unacknowledged:
                pass
        return self.events

    async def _over_http(self, message: Json, unknown: Unacknowledged) -> Ack:
        """Asks over HTTP whether an answer counted, after the socket did not tell. Raises ``unknown`` if the
        server does not say.
        """
        if self._fault is not None:
            raise self._fault
        body = {name: message[name] for name in ("action", "thoughts") if name in message}
        request_id, token = message["request_id"], self._token()
        # Without a token of the seat, the query names the seat.
        query = {} if token else {"viewer": f"seat:{request_id.rpartition('.')[2]}"}
        try:
            async with asyncio.timeout(SETTLING_S):
                answer = await self._http.post(
                    f"{self._path}/requests/{request_id}/action", body, token=token, query=query
                )
            return Ack.read(answer)
        except ApiError as refused:
            if refused.code == "unknown":
                raise unknown from refused
            open_request = refused.problem.get("request")
            raise Refused(
                refused.code,
                refused.detail,
                pointer=refused.pointer,
                attempts_left=refused.problem.get("attempts_left"),
                request=Request.read(open_request) if open_request else None,
            ) from refused
        except (InterIntentError, TimeoutError, ValueError, LookupError, TypeError) as fault:
            # There was no answer, or it could not be read.
            raise unknown from fault

    def _over(self, request_id: str) -> GameOver:
        return GameOver(f"the game ended before {request_id} was acknowledged")

    def _start(self) -> None:
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(), name="interintent seat")

    async def _read(self) -> None:
        try:
            async with aclosing(self._stream.frames()) as frames:
                async for frame in frames:
                    await self._take(frame)
        except asyncio.CancelledError:
            self._fault = Unacknowledged("the seat was left")
            raise
        except Exception as fault:
            self._fault = fault
        finally:
            self._ended = True
            self._open = None
            self._news.set()
            for message, waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self._fault or self._over(message["request_id"]))

    async def _take(self, frame: Json) -> None:
        match frame["t"]:
            case "welcome":
                # The server sends a request that is still open again.
                self._open = None
                for message, _ in list(self._waiting.values()):
                    await self._stream.send(message)
            case "events":
                self.events += frame["items"]
                for event in frame["items"]:
                    self._close_by(event)
            case "request":
                self._ask(Request.read(frame))
            case "ack" if frame.get("request_id"):
                self._settle(frame.get("re"), Ack.read(frame))
            case "error":
                open_request = frame.get("request")
                name = self._answer_of(frame)
                if name is not None and frame["code"] in ASKED_AGAIN and frame.get("attempts_left") != 0:
                    self._given = None
                    self._news.set()
                refused = Refused(
                    frame["code"],
                    frame.get("detail", ""),
                    pointer=frame.get("pointer"),
                    attempts_left=frame.get("attempts_left"),
                    request=Request.read(open_request) if open_request else None,
                )
                self._settle(name, refused)
                if refused.request is not None:
                    self._ask(refused.request)
            case _:
                pass

    def _ask(self, request: Request) -> None:
        self._open = request
        self._news.set()
        self._close(lambda request_id: request_id != request.request_id)

    def _close_by(self, event: Event) -> None:
        """Ends the wait for acknowledgements of answers to the requests that this event closes."""
        if event.type == "action_defaulted":
            self._close(lambda request_id: request_id == event.raw.get("request_id"))
        elif event.type in ("game_ended", "game_cancelled"):
            for message, waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self._over(message["request_id"]))

    def _close(self, is_closed: Callable[[str], bool]) -> None:
        for message, waiting in self._waiting.values():
            if is_closed(message["request_id"]) and not waiting.done():
                waiting.set_result(None)

    def _answer_of(self, frame: Json) -> str | None:
        """The id of the answer that an error frame refers to: the one that the frame names or else, since the
        server reads messages in order, the oldest one. None for a rate limit, since the answer is sent again.
        """
        if frame["code"] == "rate-limited":
            return None
        name = frame.get("re") or next(iter(self._waiting), None)
        return name if name in self._waiting else None

    def _settle(self, name: str | None, outcome: Ack | Refused) -> None:
        _, waiting = self._waiting.get(name or "", (None, None))
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, Ack):
            waiting.set_result(outcome)
        else:
            waiting.set_exception(outcome)
