"""A seat played from outside."""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, Self

from interintent_client.errors import ApiError, GameOver, InterIntentError, Refused
from interintent_client.http import Http
from interintent_client.records import Ack, Event, Json, Request
from interintent_client.stream import Stream

__all__ = ["Choose", "Seat"]

ASKED_AGAIN: Final = frozenset({"illegal-action", "invalid-action"})
"""Refusals after which the same request stays open, while there are attempts left."""

Choose = Callable[[Request, Sequence[Event]], Json | Awaitable[Json]]
"""Answers a request, given it and everything the seat has seen."""


class Seat:
    """Iterating gives each request of the seat once, and again after each refused answer.

    ``act`` returns when the server has committed the answer, over however many connections. Breaks
    of the connection show nowhere.
    """

    def __init__(self, stream: Stream, http: Http, path: str, token: Callable[[], str | None]) -> None:
        self._stream = stream
        self._http = http
        self._path = path
        self._token = token
        self.events: list[Event] = []
        """Everything this seat has been shown, oldest first."""
        self._open: Request | None = None
        self._given: str | None = None
        self._ended = False
        self._fault: Exception | None = None
        self._news = asyncio.Event()
        self._waiting: dict[str, tuple[Json, asyncio.Future[Ack]]] = {}
        self._ids = (f"{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leaves. The game goes on without the seat, with defaults."""
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
        """Answers, and returns when the server has committed it. Sent again until then: it counts once.

        Raises Refused when the answer was not taken (after ``illegal-action`` and ``invalid-action``
        the seat is asked again), and GameOver.
        """
        self._start()
        name = message_id or next(self._ids)
        message: dict[str, Any] = {
            "t": "act",
            "id": name,
            "request_id": request.request_id,
            "action": action,
        }
        if thoughts:
            message["thoughts"] = list(thoughts)
        if self._ended:
            return await self._over_http(message)
        waiting: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        self._waiting[name] = message, waiting
        try:
            await self._stream.send(message)
            return await waiting
        except GameOver:
            return await self._over_http(message)
        finally:
            self._waiting.pop(name, None)

    async def play(
        self, choose: Choose, on_refusal: Callable[[Refused], object] | None = None
    ) -> list[Event]:
        """Plays the seat to the end of the game and returns all it has seen.

        A refused answer is handed to ``on_refusal`` and, while the request is open, chosen anew; an
        answer that came too late costs nothing but the move.
        """
        async for request in self:
            found = choose(request, self.events)
            action = await found if isinstance(found, Awaitable) else found
            try:
                await self.act(request, action)
            except Refused as refused:
                if on_refusal is not None:
                    on_refusal(refused)
            except GameOver:
                pass
        return self.events

    async def _over_http(self, message: Json) -> Ack:
        """Asks what became of an answer when the socket has nothing more to say."""
        if self._fault is not None:
            raise self._fault
        body = {name: message[name] for name in ("action", "thoughts") if name in message}
        try:
            answer = await self._http.post(
                f"{self._path}/requests/{message['request_id']}/action", body, token=self._token()
            )
        except ApiError as refused:
            raise Refused(refused.code, refused.detail) from refused
        except InterIntentError as fault:
            raise GameOver(f"the game ended before {message['request_id']} was acknowledged") from fault
        return Ack(answer["request_id"], answer["duplicate"])

    def _start(self) -> None:
        if self._reader is None:
            self._reader = asyncio.create_task(self._read(), name="interintent seat")

    async def _read(self) -> None:
        try:
            async with aclosing(self._stream.frames()) as frames:
                async for frame in frames:
                    await self._take(frame)
        except Exception as fault:
            self._fault = fault
        finally:
            self._ended = True
            self._open = None
            self._news.set()
            for _, waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(self._fault or GameOver("the game is over"))

    async def _take(self, frame: Json) -> None:
        match frame["t"]:
            case "welcome":
                # A request that is still open is sent anew.
                self._open = None
                for message, _ in list(self._waiting.values()):
                    await self._stream.send(message)
            case "events":
                self.events += frame["items"]
            case "request":
                self._ask(Request.read(frame))
            case "ack" if frame.get("request_id"):
                self._settle(frame, Ack(frame["request_id"], bool(frame.get("duplicate"))))
            case "error":
                still = frame.get("request")
                if (
                    frame.get("re") in self._waiting
                    and frame["code"] in ASKED_AGAIN
                    and frame.get("attempts_left") != 0
                ):
                    self._given = None
                    self._news.set()
                if still:
                    self._ask(Request.read(still))
                refused = Refused(
                    frame["code"],
                    frame.get("detail", ""),
                    pointer=frame.get("pointer"),
                    attempts_left=frame.get("attempts_left"),
                    request=self._open if still else None,
                )
                self._settle(frame, refused)
            case _:
                pass

    def _ask(self, request: Request) -> None:
        self._open = request
        self._news.set()

    def _settle(self, frame: Json, outcome: Ack | Refused) -> None:
        _, waiting = self._waiting.get(frame.get("re") or "", (None, None))
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, Ack):
            waiting.set_result(outcome)
        else:
            waiting.set_exception(outcome)
