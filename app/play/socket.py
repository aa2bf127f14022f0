"""The socket: one connection, one viewer, one game.

The log is the queue. A connection has a spot in its viewer's stream, and sends the page after that
spot whenever the last write has drained. Nothing is buffered for the connection, so a slow reader costs the
others nothing.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import structlog
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketDisconnected

from app.base.errors import (
    Forbidden,
    InvalidRequest,
    NotFound,
    RateLimited,
    UnknownRequest,
    Unparsable,
    UpgradeRequired,
)
from app.base.lifecycle import Lifecycle
from app.base.problems import ProblemResponse, documented, problem_response
from app.edge.auth import Caller, Keys
from app.edge.bodies import BodyRoute
from app.games.access import Access, Sight
from app.games.bots import Bots
from app.protocol.actions import text_fault
from app.protocol.close_codes import Code
from app.protocol.messages import (
    Ack,
    Act,
    ActAck,
    Beat,
    Identify,
    Ping,
    Welcome,
    message_id,
    read_message,
    read_text,
    refusal,
)
from app.seats.remote_seat import RemoteSeat
from app.seats.seats import Accepted, Refused, Seats, check_answers_for
from app.seats.wire import CLOSING_S, REVOKED, STOPS, Closing, Handshakes, SocketTalk, accepted, address_of
from app.settings import Settings
from app.store.games import OPEN
from app.store.rows import GameRow
from app.stream.feed import ANY_SEAT, Feed, held_name
from app.stream.live import Live
from app.stream.metrics import (
    socket_events,
    sockets_open,
)
from app.stream.pages import Page, Pages, Spot
from app.stream.positions import Positions
from app.stream.relay import Relays
from app.stream.shared import Shared, unbroken
from app.stream.turns import Turns
from app.stream.writer import send_at_once
from engine.errors import AvalonError, InvalidAction
from engine.terms import FULL, PUBLIC, Viewer
from engine.view import viewer_name

__all__ = ["Sockets", "router"]

log = structlog.get_logger()

router = APIRouter(route_class=BodyRoute)

LAG_S: Final = 60.0
"""How long a connection may stay behind the log without once catching up."""

_NO_SEAT: Final = "this connection holds no remote seat"

_Unread = InvalidAction | InvalidRequest | RateLimited
"""A reason why the action of an ``act`` is not read."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """What connections need: made once and shared by all of them."""

    settings: Settings
    lifecycle: Lifecycle
    keys: Keys
    access: Access
    rows: Shared[str, GameRow | None]
    """Rows of games, read once for all connections that ask at the same moment."""
    seats: Seats
    feed: Feed
    positions: Positions
    pages: Pages
    relays: Relays
    turns: Turns
    live: Live
    handshakes: Handshakes
    bots: Bots


@router.websocket("/ws")
async def socket(websocket: WebSocket) -> None:
    """Watch a game, or play a seat in it."""
    sockets: Sockets = websocket.app.state.sockets
    if await accepted(websocket, sockets.handshakes):
        with sockets_open.track_inprogress():
            await Connection(websocket, sockets).run()


_OVER_HTTP: Final[Mapping[str, Any]] = {
    "status_code": 426,
    "response_model": None,
    "response_class": ProblemResponse,
    "responses": documented(426),
}


@router.get("/ws", summary="The socket's address, over plain HTTP", **_OVER_HTTP)
@router.get(
    "/ws/lobby",
    name="tell_lobby_upgrade",
    summary="The address of a bot's own socket, over plain HTTP",
    **_OVER_HTTP,
)
async def tell_upgrade() -> NoReturn:
    """This address is for WebSockets: `/asyncapi.json` describes the messages."""
    raise UpgradeRequired("connect with a WebSocket client; /docs/bots.md is the guide")


@router.websocket("/{path:path}")
async def elsewhere(websocket: WebSocket) -> None:
    """At any other address, answers where the socket is."""
    await websocket.send_denial_response(problem_response(NotFound("the socket is at /ws")))


class Connection(SocketTalk):
    """One accepted socket that shows one game to one viewer."""

    def __init__(self, websocket: WebSocket, sockets: Sockets) -> None:
        super().__init__(websocket)
        self._sockets = sockets
        self._holder = sockets.seats.arrive()
        self._view: RemoteSeat | None = None
        """The seat that this connection views as, where a remote agent plays it."""
        self._sits = False
        """Whether this connection holds the seat, and answers for it."""
        self._relayed = False
        """Whether a relay sends to it once it has caught up: True for viewers that many connections share."""
        self._seat_hints: list[str] = []
        """The names under which hints about seats come: the seat that it holds, or whose token it has; for a
        key that sees more than the public, any seat that somebody else gets.
        """
        self._is_new = True
        """Whether it has not yet read the log, and checked who holds its seat."""
        self._has_asked = False
        """Whether it has looked for its seat's open request before."""
        self.live = False
        """Whether it asked for the live layer."""
        self._turn = ""
        """The last frame ``turn`` that was sent."""
        self._answering = asyncio.Lock()
        """Held while an ``act`` gets its answer."""

    async def _talk(self) -> NoReturn:
        settings = self._sockets.settings
        await self._say_hello(settings.identify_within_s, settings.idle_s)
        with self._sockets.handshakes.unidentified.waiting(address_of(self._websocket)):
            identify = await self._receive_identify(settings.identify_within_s, read_message, Identify)
        caller = await self._caller(identify)
        spot = await self._start(identify, caller)
        self._viewed_by = caller
        self.spot = spot
        # Not for seats: they have few connections, and at many events each needs its own request.
        self._relayed = spot.viewer in (PUBLIC, FULL)
        seat = spot.viewer if self._sits else caller.seat
        if seat is not None:
            self._seat_hints.append(held_name(spot.game_id, seat))
        if caller.key_id is not None and spot.viewer != PUBLIC:
            self._seat_hints.append(held_name(spot.game_id, ANY_SEAT))
        # Watch before the first read: so no commit in between is missed.
        names = [*([] if self._relayed else [spot.game_id]), *self._seat_hints]
        self.live = identify.live
        with self._sockets.feed.watch(*names) as watch, self._tail(spot.game_id), self._present(spot.game_id):
            self._watch = watch
            if self._log_head is not None and not self._relayed:
                self._sockets.feed.tails.begin(spot.game_id, self._log_head)
            await self._welcome(spot)
            await self._both(self._listen(), self._follow(caller))

    def _tail(self, game_id: str) -> AbstractContextManager[None]:
        """Keeps the game's last events in memory; a relay does so for its own spectators."""
        return nullcontext() if self._relayed else self._sockets.feed.tails.keep(game_id)

    def _present(self, game_id: str) -> AbstractContextManager[None]:
        """Counts the connection as a watcher, unless it has a seat's view: the count would tell which seats
        are played from outside.
        """
        return self._sockets.live.present(game_id) if self._relayed else nullcontext()

    # --- before welcome ----------------------------------------------------------------------

    async def _caller(self, identify: Identify) -> Caller:
        caller = await self._caller_with(self._sockets.keys, identify.token)
        # One bot uses a seat's token; many people share keys and watch tokens.
        if caller.seat is not None:
            wait_s = self._sockets.handshakes.unidentified.wait_s(caller.name, time.monotonic())
            if wait_s:
                raise Closing(Code.RATE, f"retry_after_ms={math.ceil(wait_s * 1000)}")
        return caller

    async def _start(self, identify: Identify, caller: Caller) -> Spot:
        """Finds the game, the viewer and the seat, and returns the spot from which to send on."""
        row = await self._reached(identify.game, caller)
        sight = await self._sockets.access.sight(caller, row)
        try:
            viewer = sight.named(identify.viewer, row.players)
        except Forbidden:
            raise Closing(Code.NO_SUCH_GAME, "no such game for this credential") from None
        except InvalidRequest as fault:
            await self._send_refusal(refusal(identify.id, fault))
            raise Closing(Code.MALFORMED, "no such viewer") from None
        self._log_head = row.head if row.status in OPEN else None
        self._view = await self._sockets.seats.view(row, viewer)
        try:
            self._sits = self._wants_to_sit(identify, caller, viewer, sight)
        except InvalidRequest as fault:
            await self._send_refusal(refusal(identify.id, fault))
            raise Closing(Code.MALFORMED, "that seat cannot be held") from None
        except Forbidden:
            raise Closing(Code.NO_SUCH_GAME, "no such seat for this credential") from None
        self._head, place = await self._sockets.positions.place(identify.game, viewer, identify.after)
        if place is None:
            raise Closing(Code.BEYOND_HEAD, f"after is beyond head {self._head}")
        return Spot(identify.game, viewer, identify.after, place)

    async def _reached(self, game_id: str, caller: Caller) -> GameRow:
        """The row of a game that the credential covers. Raises Closing for any other."""
        row = await self._sockets.rows.get(game_id)
        if row is None or not await self._sockets.access.reaches(caller, row):
            raise Closing(Code.NO_SUCH_GAME, "no such game for this credential")
        return row

    def _wants_to_sit(self, identify: Identify, caller: Caller, viewer: Viewer, sight: Sight) -> bool:
        """Whether the connection is to hold its seat: with the seat's own token unless it declines, with
        another credential only if it asks to. Raises InvalidRequest or Forbidden if it asks and cannot.
        """
        own = caller.seat == viewer
        if identify.sit is False or (identify.sit is None and not own):
            return False
        if viewer in (PUBLIC, FULL):
            raise InvalidRequest("viewer must name the seat to hold, e.g. seat:2", "/sit")
        if self._view is None:
            if identify.sit is None:
                return False
            raise InvalidRequest(f"seat {viewer} is not a remote seat", "/sit")
        check_answers_for(viewer, sight.answers)
        return True

    async def _welcome(self, spot: Spot) -> None:
        if self._sits:
            if self._sockets.lifecycle.draining:
                raise Closing(Code.STOPPING, STOPS)  # not to take the seat from where its bot goes next
            await self._sockets.seats.hold(spot.game_id, spot.viewer, self._holder)
        welcome = Welcome(game=spot.game_id, viewer=viewer_name(spot.viewer), head=self._head, after=spot.seq)
        await self._send(welcome.model_dump_json())

    # --- after welcome: what goes out --------------------------------------------------------

    async def _follow(self, caller: Caller) -> NoReturn:
        with ExitStack() as looking:
            await self._follow_on(caller, looking)

    async def _follow_on(self, caller: Caller, looking: ExitStack) -> NoReturn:
        caught_up = time.monotonic()
        asked: str | None = None
        while True:
            if self._sockets.lifecycle.draining:
                raise Closing(Code.STOPPING, STOPS)
            if not self._sockets.keys.is_valid(caller):
                raise Closing(Code.UNAUTHENTICATED, REVOKED)
            await self._check_seat(caller)
            page = await self._page()
            self._is_new = False
            if page.ends and caller.key_id is not None:
                # Its owner may play a fork with the same deal, which the end tells.
                await self._reached(self.spot.game_id, caller)
            if page.count:
                await self._send_page(page)
            self.spot = page.end
            if page.over:
                if self.live:
                    await self._look_on(looking)
                await self._answered()
                raise Closing(Code.OVER, "the game is over and everything has been sent")
            if page.more:
                if time.monotonic() - caught_up > LAG_S:
                    raise Closing(Code.TOO_SLOW, "too far behind")
                # A send into a buffer with room does not yield: let other tasks run.
                await asyncio.sleep(0)
                continue
            if self.live:
                await self._look_on(looking)
            asked = await self._ask(asked)
            if not self._relayed:
                await self._idle(caller)
            elif self._sockets.relays.add(self):
                try:
                    await self._idle(caller)
                finally:
                    self._sockets.relays.remove(self)
            caught_up = time.monotonic()

    async def _answered(self) -> None:
        """Returns when no ``act`` waits for its answer, or after a few seconds: the action that ended the
        game is acknowledged before the connection is closed for good.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S), self._answering:
                pass

    async def _look_on(self, looking: ExitStack) -> None:
        """Sends whose turn it is, if that has changed; the first time, also joins those who look on."""
        is_first = not self._turn
        frame = await self._sockets.turns.frame(self.spot.game_id, self.spot.place)
        if frame is not None and frame != self._turn:
            self._turn = frame
            await self._send(frame)
        if is_first and self._turn:
            spot = self.spot
            for frame in looking.enter_context(
                self._sockets.live.looking_on(spot.game_id, spot.viewer, self)
            ):
                await self._send(frame)

    async def _page(self) -> Page:
        """The page after the spot. Where this process commits the game's events, it need not read the log."""
        spot, sockets = self.spot, self._sockets
        page = sockets.pages.at_once(spot)
        if page is not None:
            return page
        is_end = not self._relayed and sockets.feed.tails.end(spot.game_id) == spot.place
        if is_end and not self._is_new and not self._watch.rung_by(spot.game_id):
            return Page("", 0, spot, more=False, over=False)
        return await sockets.pages.after(spot)

    async def _check_seat(self, caller: Caller) -> None:
        """Raises Closing when the seat's tokens were revoked, when a newer connection holds the seat, or when
        the key may see less than before, because others have joined the table. Checks at the beginning and at
        every hint.
        """
        rung = [name for name in self._seat_hints if self._watch.rung_by(name)]
        if not self._seat_hints or not (rung or self._is_new):
            return
        spot = self.spot
        row = await self._sockets.rows.get(spot.game_id)
        if row is None or not caller.is_current(row.epochs):
            raise Closing(Code.UNAUTHENTICATED, REVOKED)
        if caller.key_id is not None and row.taken:
            sight = await self._sockets.access.sight(caller, row)
            if not sight.shows(spot.viewer) or (self._sits and spot.viewer not in sight.answers):
                raise Closing(Code.NO_SUCH_GAME, "others have come to the table: identify again")
        if self._sits and not await unbroken(
            self._sockets.seats.holds(spot.game_id, spot.viewer, self._holder)
        ):
            raise Closing(Code.REPLACED, "a newer connection holds this seat")

    async def _ask(self, asked: str | None) -> str | None:
        """Sends the seat's open request, unless it was sent last. Returns the id of the last one sent."""
        if self._view is None:
            return None
        has_asked, self._has_asked = self._has_asked, True
        request = await self._sockets.seats.asked_after(self._view, self.spot.place, asked, live=has_asked)
        if request is None:
            return asked
        await self._send(request.as_frame())
        return request.request_id

    async def _idle(self, caller: Caller) -> None:
        """Waits until there may be more to read, or the credential expires. Sends a beat when nothing has
        been sent for ``idle_s``.

        Only sent messages count: hints of events that this viewer may not see do not shift its beats.
        """
        idle_s = self._sockets.settings.idle_s
        while True:
            left = self._last_sent + idle_s - time.monotonic()
            if left <= 0:
                await self._send(Beat(head=self.spot.seq).model_dump_json())
                continue
            rung = await self._watch.wait(min(left, self._sockets.keys.left_s(caller)))
            if rung or not self._sockets.keys.is_valid(caller):
                return

    # --- the relay sends to a spectator that has caught up ------------------------------------

    def push(self, page: Page, now: float) -> bool:
        """Sends the next page, if the peer takes it at once and the credential is still valid. Whether a key
        may know the end, its own task finds out.
        """
        if page.ends and self._viewed_by.key_id is not None:
            return False
        if not self._sockets.keys.is_valid(self._viewed_by):
            return False
        try:
            sent = send_at_once(self._websocket.send({"type": "websocket.send", "text": page.frame}))
        except (WebSocketDisconnect, WebSocketDisconnected):
            return False  # The connection's own task notices as well.
        if sent:
            self.spot = page.end
            self._last_sent = now
        return sent

    def show(self, text: str) -> bool:
        """Sends a frame of the live layer, if the peer takes it at once and the credential is still valid."""
        if not self._sockets.keys.is_valid(self._viewed_by):
            return False
        try:
            return send_at_once(self._websocket.send({"type": "websocket.send", "text": text}))
        except (WebSocketDisconnect, WebSocketDisconnected):
            return False

    def show_turn(self, frame: str) -> None:
        """As ``show``, for whose turn it is. If the peer does not take it at once, the connection's own task
        sends it.
        """
        if frame != self._turn:
            if self._turn and self.show(frame):
                self._turn = frame
            else:
                self.ring()

    def ring(self) -> None:
        """Wakes the connection's own task."""
        self._watch.ring()

    # --- after welcome: what comes in --------------------------------------------------------

    async def _listen(self) -> NoReturn:
        while True:
            value: Any = None
            try:
                value = read_text(await self._receive())
                message = read_message(value)
                if isinstance(message, Identify):
                    raise InvalidRequest("this connection has identified already", "/t", "identified")
            except (InvalidAction, InvalidRequest, Unparsable) as fault:
                if _is_act(value) and not isinstance(fault, Unparsable):
                    await self._answer(value, fault)
                else:
                    await self._send_refusal(refusal(message_id(value), fault))
                # A wrong action was readable: it is no strike.
                if not isinstance(fault, InvalidAction):
                    self._strike()
                continue
            if isinstance(message, Ping):
                await self._send(Ack(re=message.id).model_dump_json())
            else:
                await self._answer(value, message)

    async def _answer(self, value: Mapping[str, Any], act: Act | _Unread) -> None:
        async with self._answering:
            await self._act(value, act)

    async def _act(self, value: Mapping[str, Any], act: Act | _Unread) -> None:
        """Answers an ``act``: an acknowledgement, or a refusal with its reason and the open request."""
        re = act.id if isinstance(act, Act) else message_id(value)
        if self._view is None or not self._sits:
            # A connection that only watches has no requests.
            fault = act if isinstance(act, AvalonError) else UnknownRequest(_NO_SEAT)
            await self._send_refusal(refusal(re, fault))
            return
        outcome = await self._outcome(self._view, value, act, re)
        if isinstance(outcome, Refused):
            remaining = {"attempts_left": outcome.attempts_left, "request": outcome.request}
            await self._send_refusal(refusal(re, outcome.error).model_copy(update=remaining))
        else:
            if not outcome.duplicate:
                # A request takes one answer: whoever only answers is never too fast.
                self._allowance.give_back()
            if not outcome.duplicate and await self._sockets.bots.cuts(self._view, outcome.request_id):
                raise Closing(Code.STOPPING, "the check of bots cuts here: come back, and play on")
            ack = ActAck(
                re=re,
                request_id=outcome.request_id,
                duplicate=outcome.duplicate,
                thoughts_refused=list(outcome.thoughts_refused),
            )
            await self._send(ack.model_dump_json())

    async def _outcome(
        self,
        view: RemoteSeat,
        value: Mapping[str, Any],
        act: Act | _Unread,
        message: str | None,
    ) -> Accepted | Refused:
        seats = self._sockets.seats
        if not isinstance(act, InvalidRequest | RateLimited):
            request_id = value.get("request_id")
            if isinstance(request_id, str) and text_fault(request_id) is None:
                return await seats.act(view, request_id, act, via=self._id, message=message)
        assert isinstance(act, AvalonError)
        return await unbroken(seats.refuse(view, act))

    # --- frames ------------------------------------------------------------------------------

    async def _refuse_rate(self, value: Any, fault: RateLimited) -> None:
        if _is_act(value):
            await self._act(value, fault)
        else:
            await super()._refuse_rate(value, fault)

    async def _send_page(self, page: Page) -> None:
        await self._send(page.frame)
        socket_events.inc(page.count)
        self.spot = page.end


def _is_act(value: Any) -> bool:
    return isinstance(value, dict) and value.get("t") == "act"
