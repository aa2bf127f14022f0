"""The socket of the mock server. It puts the bot into another situation with each request."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn

from starlette.websockets import WebSocket, WebSocketDisconnect

from agents.table import ATTEMPTS
from app.base.errors import AlreadyAnswered, InvalidRequest, RateLimited, TooLate, UnknownRequest
from app.instruments.bot_check.findings import close_check
from app.instruments.bot_check.game import SEAT, TEXT_FAULT, THOUGHT_FAULT
from app.instruments.bot_check.session import (
    ANY,
    REFUSED_ONCE,
    SLOW_S,
    SPEAK,
    SPEAKING,
    UNKNOWN_FIELDS,
    WITH_CHOICE,
    Session,
)
from app.protocol.actions import RefusedThought
from app.protocol.close_codes import CLOSE_CODES, ComeBack
from app.protocol.messages import (
    MAX_IDENTIFY,
    SUBPROTOCOL,
    Ack,
    Act,
    Beat,
    Hello,
    Identify,
    Ping,
    Welcome,
    message_id,
    read_message,
    read_text,
    refusal,
)
from engine.actions import SeatAction
from engine.errors import AvalonError, IllegalAction, InvalidAction, InvalidInput
from engine.terms import Kind

__all__ = ["serve_socket"]

IDENTIFY_S: Final = 5.0
IDLE_MS: Final = 25_000
RETRY_MS: Final = 1_500
TURNED_AWAY: Final = (1013, 4408, 1013, 1013)
"""The close codes of successive connections, each of which is closed as soon as it is open."""
LEAST_WAIT_S: Final = 0.2
"""The least sum of the bot's waits between those connections. With full jitter, the average is 5.6 s, and
only one bot in ten thousand stays below this."""


class Left(Exception):
    """We or the bot have ended the connection."""


class MockConnection:
    """One connection of the bot."""

    def __init__(self, websocket: WebSocket, session: Session) -> None:
        self._websocket = websocket
        self._session = session
        self._findings = session.findings
        self._game = session.game
        self._sent = 0
        self._extra: dict[str, Any] = {}
        self._left_out: tuple[RefusedThought, ...] = ()
        """The refused thoughts of the last answer."""

    async def run(self) -> None:
        """Serves the connection from hello to its end."""
        session = self._session
        try:
            await self._identified()
            await self._welcome()
            while not self._game.over:
                await self._next()
            await self._events()
            session.expect("runs")
            session.pass_expected()
            await self._close(1000, "the game is over and everything has been sent")
        except Left:
            pass
        except WebSocketDisconnect as gone:
            if session.due is None and not session.ended:
                self._findings.wrong(session.failing, f"closed the connection by itself (code {gone.code})")
                session.disconnect(session.failing)

    # --- identification --------------------------------------------------------------------------

    async def _identified(self) -> None:
        session = self._session
        hello = Hello(conn="c_check", identify_within_ms=int(IDENTIFY_S * 1000), idle_ms=IDLE_MS)
        session.doing = "identify"
        session.asked_since = None
        session.invite()
        await self._send(hello.model_dump())
        try:
            async with asyncio.timeout(IDENTIFY_S + 1):
                text = await self._receive()
        except TimeoutError:
            self._findings.wrong("identify", f"sent nothing within {IDENTIFY_S:g} s of hello")
            await self._close(4408, "no identify in time")
        if len(text.encode()) > MAX_IDENTIFY:
            self._findings.wrong("identify", f"sent {len(text)} characters, at most {MAX_IDENTIFY} bytes")
        try:
            message = read_message(read_text(text))
        except AvalonError as fault:
            self._findings.wrong("identify", f"{getattr(fault, 'pointer', '') or 'message'}: {fault}")
            await self._close(4400, "identify could not be read")
        if not isinstance(message, Identify):
            self._findings.wrong("identify", f"sent {message.t} before identify")
            await self._close(4400, "identify first")
        for name, sent, right in (
            ("game", message.game, self._game.id),
            ("token", message.token, session.token),
        ):
            if sent != right:
                self._findings.wrong("identify", f"{name} is not the one it was given")
                await self._close(4403 if name == "game" else 4401, f"wrong {name}")
        self._findings.ok("identify")
        await self._resumed(message.after)
        if session.ends_with in (4400, 4401, 4403, 4416, 4426):
            await self._end(session.ends_with)

    async def _resumed(self, after: int) -> None:
        session, head = self._session, len(self._game.items)
        read, sent = session.events_read, session.events_sent
        if after > sent:
            self._findings.wrong("resume", f"resumed with after={after}, but only {sent} events were sent")
        elif after < read and not session.fresh:
            self._findings.wrong("resume", f"resumed with after={after}, but had already read {read} events")
        elif not session.fresh:
            self._findings.ok("resume")
        session.fresh = False
        if after > head:
            await self._close(4416, f"after is beyond head {head}")
        self._sent = after

    async def _welcome(self) -> None:
        welcome = Welcome(
            game=self._game.id, viewer=f"seat:{SEAT}", head=len(self._game.items), after=self._sent
        )
        await self._send(welcome.model_dump())
        await self._events()

    async def _events(self) -> None:
        """Sends the events that the bot has not been sent yet."""
        while self._sent < len(self._game.items):
            page = self._game.items[self._sent : self._sent + 20]
            await self._send({"t": "events", "items": [{**item, **self._extra} for item in page]})
            self._sent += len(page)
            self._session.events_sent = max(self._session.events_sent, self._sent)

    # --- one request --------------------------------------------------------------------------

    async def _next(self) -> None:
        """Sends the open request in the first situation that fits it and has not been tried yet."""
        session = self._session
        request = self._game.request
        assert request is not None
        untried = (
            situation
            for situation in SITUATIONS
            if session.ends_with is None
            and situation[:2] not in session.tried
            and request.kind in situation[1]
        )
        name, kinds, play = next(untried, PLAIN)
        session.tried.add((name, kinds))
        session.doing = "answers" if name == "plain" else name
        with suppress(_DefaultPlayed):
            if session.ends_with is None:
                await play(self)
            else:
                await self._asked()
                await self._end(session.ends_with)
        self._extra = {}

    async def _ask(self) -> None:
        self._session.invite()
        await self._send({**self._game.shown(self._session.refused), **self._extra})

    async def _answered(self) -> tuple[Act, SeatAction]:
        """Waits for the bot's legal answer to the open request. Refuses other answers, as a server does."""
        session = self._session
        while True:
            act = await self._next_act()
            try:
                action, self._left_out = self._game.read(act)
            except (InvalidAction, IllegalAction) as fault:
                self._findings.wrong("legal", f"{act.request_id}: {fault.pointer or '/'}: {fault}")
                await self._refuse(act, fault)
                continue
            session.judge_repetition(act.request_id, act.action)
            session.judge_thoughts(act.request_id, self._left_out)
            self._findings.ok("legal")
            self._findings.ok("answers")
            session.pass_expected()
            session.asked_since = None
            # The bot has read everything before the request.
            session.events_read = self._sent
            return act, action

    async def _next_act(self) -> Act:
        session = self._session
        request = self._game.request
        assert request is not None
        if session.asked_since is None:
            session.asked_since = time.monotonic()
        while True:
            message = await self._message()
            if not isinstance(message, Act):
                continue
            if message.request_id == request.id:
                return message
            known = session.accepted_same(message.request_id, message.action)
            if known is None:
                self._findings.wrong(
                    "what-is-asked", f"answered {message.request_id} while asked for {request.id}"
                )
                await self._error(message.id, UnknownRequest("no such request is open for this seat"))
            elif known:
                await self._ack(message, duplicate=True)
            else:
                await self._error(message.id, AlreadyAnswered("another answer was accepted before"))

    async def _refuse(self, act: Act, fault: InvalidAction | IllegalAction) -> None:
        session = self._session
        session.invite()
        if session.refuse():
            await self._error(act.id, fault, attempts_left=0)
            await self._events()
            raise _DefaultPlayed
        left, request = ATTEMPTS - session.refused, self._game.shown(session.refused)
        await self._error(act.id, fault, attempts_left=left, request=request)

    async def _accept(self, act: Act, action: SeatAction, *, answer: bool = True) -> None:
        self._session.remember(act.request_id, act.action, self._left_out)
        self._game.accept(action)
        if answer:
            await self._ack(act)
            await self._events()

    async def _ack(self, act: Act, *, duplicate: bool = False) -> None:
        await self._send(self._session.ack(act.id, act.request_id, duplicate=duplicate).model_dump())

    async def _error(self, re: str | None, error: AvalonError, **more: Any) -> None:
        await self._send({**refusal(re, error).model_dump(exclude_none=True), "re": re, **more})

    # --- situations ---------------------------------------------------------------------------

    async def _asked(self) -> tuple[Act, SeatAction]:
        await self._ask()
        return await self._answered()

    async def _plain(self) -> None:
        await self._accept(*await self._asked())

    async def _unknown(self) -> None:
        self._extra = UNKNOWN_FIELDS
        await self._send({"t": "weather", "sun": True, **self._extra})
        self._game.invent()
        await self._events()
        self._session.expect("unknown")
        await self._plain()

    async def _quiet(self) -> None:
        await asyncio.sleep(0.3)
        await self._send(Beat(head=self._sent).model_dump())
        await asyncio.sleep(0.3)
        self._session.expect("quiet")
        await self._plain()

    async def _slow(self) -> None:
        act, action = await self._asked()
        await asyncio.sleep(SLOW_S)
        self._session.expect("slow")
        await self._accept(act, action)

    async def _refuse_once(self, check: str, fault: InvalidAction | IllegalAction) -> None:
        act, _ = await self._asked()
        await self._refuse(act, fault)
        self._session.expect(check)
        await self._accept(*await self._answered())

    async def _thought_refused(self) -> None:
        act, action = await self._asked()
        self._left_out = (THOUGHT_FAULT,)
        self._session.expect("thought-refused")
        await self._accept(act, action)

    async def _asked_twice(self) -> None:
        await self._ask()
        await self._ask()
        self._session.expect("asked-twice")
        # A second answer may follow the first: it is compared with the accepted one.
        await self._accept(*await self._answered())

    async def _close_request(self, check: str, refused: TooLate | AlreadyAnswered) -> None:
        """Plays the default before the answer, which is then refused, and goes on with the next request."""
        act, _ = await self._asked()
        self._game.play_default()
        self._session.refused = 0
        more = {}
        if self._game.request is not None:
            # The error names the next request too, which the bot may answer here and again when it is asked.
            self._session.invite()
            more["request"] = self._game.shown()
        await self._error(act.id, refused, **more)
        await self._events()
        self._session.expect(check)
        if self._game.request is not None:
            # So that both answers to it are read and compared.
            await self._plain()

    async def _ack_lost(self) -> None:
        await self._accept(*await self._asked(), answer=False)
        self._cut("ack-lost")

    async def _answer_lost(self) -> None:
        act, _ = await self._asked()
        self._session.lose(act.request_id, act.action)
        self._cut("answer-lost")

    async def _half_a_frame(self) -> None:
        act, action = await self._asked()
        await self._accept(act, action, answer=False)
        self._session.expect("half-a-frame")
        await self._ack(act)
        # In the middle of the frame; the four bytes of its head tell its length.
        self._session.cut("half-a-frame", after=30)
        page = self._game.items[self._sent :]
        await self._websocket.send_text(json.dumps({"t": "events", "items": page}))
        await asyncio.sleep(0.1)
        raise Left

    async def _close_after_answer(self, code: int) -> None:
        await self._plain()
        # The bot reads everything that was sent before the close.
        self._session.events_read = self._sent
        await self._close(code, "this replica is stopping", back=True)

    async def _rate(self) -> None:
        await self._plain()
        await self._error(None, RateLimited("too many messages", RETRY_MS / 1000))
        self._session.events_read = self._sent
        self._session.disconnect("rate", not_before=RETRY_MS / 1000)
        await self._hang_up(4429, f"retry_after_ms={RETRY_MS}")

    async def _turned_away(self) -> None:
        await self._plain()
        self._session.events_read = self._sent
        self._session.turn_away = list(TURNED_AWAY)
        self._session.waited = 0.0
        await self._close(1012, "this replica is stopping", back=True)

    async def _end(self, code: int) -> None:
        self._session.expect(close_check(code))
        reasons = {close.code: close.meaning for close in CLOSE_CODES}
        await self._close(code, reasons[code][:100])

    # --- frames -------------------------------------------------------------------------------

    def _cut(self, check: str) -> None:
        self._session.expect(check)
        self._session.cut(check)
        raise Left

    async def _close(self, code: int, reason: str, *, back: bool = False) -> NoReturn:
        self._session.close(code, back=back or code == 4408)
        await self._hang_up(code, reason)

    async def _hang_up(self, code: int, reason: str) -> NoReturn:
        await self._websocket.close(code, reason)
        raise Left

    async def _send(self, frame: Mapping[str, Any]) -> None:
        await self._websocket.send_text(json.dumps(frame, ensure_ascii=False))

    async def _receive(self) -> str:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        self._session.count_message()
        text = message.get("text")
        if text is None:
            self._findings.wrong("frames", "sent a binary frame")
            await self._close(1003, "text frames only")
        return str(text)

    async def _message(self) -> Identify | Ping | Act:
        """Waits for the next valid message. Pings are answered; invalid messages are recorded and refused."""
        while True:
            value: Any = None
            try:
                value = read_text(await self._receive())
                message = read_message(value)
                if isinstance(message, Identify):
                    raise InvalidRequest("this connection has identified already", "/t")
            except InvalidInput as fault:
                self._findings.wrong("frames", f"{fault.pointer or 'message'}: {fault}")
                # As from a server, the refusal of an answer names the open request.
                is_act = isinstance(value, dict) and value.get("t") == "act"
                more = {"request": self._game.shown(self._session.refused)} if is_act else {}
                await self._error(message_id(value), fault, **more)
                continue
            self._findings.ok("frames")
            if isinstance(message, Ping):
                await self._send(Ack(re=message.id).model_dump())
                continue
            return message


class _DefaultPlayed(Exception):
    """The open request is closed by its default; the next one follows."""


Situation = Callable[[MockConnection], Awaitable[None]]

PLAIN: Final = ("plain", ANY, MockConnection._plain)

SITUATIONS: Final[tuple[tuple[str, Sequence[Kind], Situation], ...]] = (
    PLAIN,
    ("unknown", ANY, MockConnection._unknown),
    (
        "refused",
        WITH_CHOICE,
        partial(MockConnection._refuse_once, check="refused", fault=IllegalAction(SEAT, REFUSED_ONCE)),
    ),
    (
        "text-refused",
        SPEAKING,
        partial(MockConnection._refuse_once, check="text-refused", fault=InvalidAction(TEXT_FAULT, "/text")),
    ),
    ("thought-refused", ANY, MockConnection._thought_refused),
    ("answer-lost", ANY, MockConnection._answer_lost),
    ("answer-lost", SPEAK, MockConnection._answer_lost),
    ("asked-twice", WITH_CHOICE, MockConnection._asked_twice),
    ("asked-twice", SPEAK, MockConnection._asked_twice),
    ("ack-lost", ANY, MockConnection._ack_lost),
    (
        "too-late",
        (Kind.SUMMARISE,),  # the error shows the next request: a speech
        partial(
            MockConnection._close_request,
            check="too-late",
            refused=TooLate("it is closed: its deadline has passed"),
        ),
    ),
    ("half-a-frame", ANY, MockConnection._half_a_frame),
    ("quiet", ANY, MockConnection._quiet),
    ("rate", ANY, MockConnection._rate),
    (
        "already-answered",
        SPEAK,  # the error shows the next request: a vote
        partial(
            MockConnection._close_request,
            check="already-answered",
            refused=AlreadyAnswered("another answer was accepted before"),
        ),
    ),
    ("slow", ANY, MockConnection._slow),
    *(
        (close_check(close.code), ANY, partial(MockConnection._close_after_answer, code=close.code))
        for close in CLOSE_CODES
        if close.come_back == ComeBack.YES and close.code != 4408
    ),
    ("backoff", ANY, MockConnection._turned_away),
)
"""The situations in the order in which they are tried, each on the first request of one of its kinds."""


async def serve_socket(websocket: WebSocket, session: Session) -> None:
    """Serves one connection of the bot, from the handshake on."""
    away = session.connected()
    offered = websocket.scope.get("subprotocols") or ()
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    if session.due is not None or session.ended:
        # The bot should have stayed away.
        await websocket.close(session.ends_with or 1000)
        return
    if session.turn_away:
        session.waited += away or 0.0
        code = session.turn_away.pop(0)
        session.close(code, back=True)
        await websocket.close(code)
        if not session.turn_away:
            if session.waited < LEAST_WAIT_S:
                session.findings.wrong(
                    "backoff",
                    f"came back {len(TURNED_AWAY)} times within {session.waited:.2f} s in all; "
                    "wait random(0, min(30 s, 0.5 s * 2^n)) each time",
                )
            else:
                session.expect("backoff")
        return
    await MockConnection(websocket, session).run()
