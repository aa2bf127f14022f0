"""A bot's own socket: first a snapshot, then each game in which the bot gets a seat, and a beat every 10 s.

The database is the queue: at each hint, and at each beat, the connection compares the bot's seeks and games
with what it has sent. So nothing is lost between two connections, even on different processes.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from fastapi import APIRouter, WebSocket

from app.base.clock import timestamp
from app.base.errors import InvalidRequest, Unparsable
from app.edge.auth import Caller
from app.play.meeting.service import Meeting, lobby_name
from app.protocol.close_codes import Code
from app.protocol.lobby import (
    LOBBY_BEAT_S,
    LobbyBeat,
    LobbyIdentify,
    LobbySnapshot,
    OpenSeek,
    SeekClosed,
    read_lobby_message,
)
from app.protocol.messages import Ack, message_id, read_text, refusal
from app.seats.seats import Seats
from app.seats.wire import REVOKED, STOPS, Closing, Handshakes, SocketTalk, accepted, address_of
from app.store.db import PASSING
from app.stream.feed import Feed, held_name
from app.stream.metrics import sockets_open

__all__ = ["Lobby", "router"]

router = APIRouter()

_SEAT: Final = 0
"""A bot's socket is held as a seat is: the newest connection has it."""


@router.websocket("/ws/lobby")
async def lobby_socket(websocket: WebSocket) -> None:
    """Hear which games a bot has a seat in."""
    lobby: Lobby = websocket.app.state.lobby
    if await accepted(websocket, lobby.handshakes):
        with sockets_open.track_inprogress():
            await LobbyConnection(websocket, lobby).run()


@dataclass(frozen=True, slots=True)
class Lobby:
    """What the sockets of bots need: made once and shared by all of them."""

    meeting: Meeting
    seats: Seats
    feed: Feed
    handshakes: Handshakes


class LobbyConnection(SocketTalk):
    """One accepted socket of a bot."""

    def __init__(self, websocket: WebSocket, lobby: Lobby) -> None:
        super().__init__(websocket)
        self._lobby = lobby
        self._handshakes = lobby.handshakes
        self._meeting = lobby.meeting
        self._holder = lobby.seats.arrive()
        self._bot = ""
        self._holds = False
        """Whether it may have been stored that this connection holds the bot's socket."""
        self._waiting: set[str] = set()
        """The open seeks that the bot knows of."""
        self._playing: set[str] = set()
        """The games that the bot was told of."""

    async def _serve(self) -> None:
        await super()._serve()
        # A key may name as many bots as it likes: none leaves a row behind. What a process cannot delete is
        # forgotten later.
        if self._holds:
            with suppress(*PASSING):
                await self._lobby.seats.let_go(self._name, _SEAT, self._holder)

    async def _talk(self) -> NoReturn:
        within_s = self._handshakes.identify_within_s
        await self._say_hello(within_s, LOBBY_BEAT_S)
        with self._handshakes.unidentified.waiting(address_of(self._websocket)):
            identify = await self._receive_identify(within_s, read_lobby_message, LobbyIdentify)
        caller = await self._caller_with(self._handshakes.keys, identify.token)
        if "bots:play" not in caller.scopes:
            raise Closing(Code.NO_SUCH_GAME, "this needs a key with the scope bots:play")
        self._bot = identify.bot
        self._name = lobby_name(caller.owner, identify.bot)
        # Watch before the first read: so nothing in between is missed.
        with self._lobby.feed.watch(self._name, held_name(self._name, _SEAT)) as watch:
            self._watch = watch
            if self._handshakes.lifecycle.draining:
                raise Closing(Code.STOPPING, STOPS)  # not to close the socket that its bot has elsewhere
            self._holds = True
            await self._lobby.seats.hold(self._name, _SEAT, self._holder)
            await self._both(self._listen(), self._follow(caller))

    async def _follow(self, caller: Caller) -> NoReturn:
        is_new = True
        beat_at = time.monotonic() + LOBBY_BEAT_S
        while True:
            if self._handshakes.lifecycle.draining:
                raise Closing(Code.STOPPING, STOPS)
            if not self._handshakes.keys.is_valid(caller):
                raise Closing(Code.UNAUTHENTICATED, REVOKED)
            if not await self._lobby.seats.holds(self._name, _SEAT, self._holder):
                raise Closing(Code.REPLACED, "a newer connection of this bot has taken over")
            if is_new or time.monotonic() >= beat_at:
                await self._meeting.seen(caller, self._bot)
            if is_new:
                await self._tell_all(caller)
                is_new = False
            else:
                await self._tell_news(caller)
            if time.monotonic() >= beat_at:
                beat = LobbyBeat(seeks=len(self._waiting), games=len(self._playing))
                await self._send(beat.model_dump_json())
                beat_at = time.monotonic() + LOBBY_BEAT_S
            await self._watch.wait(max(beat_at - time.monotonic(), 0))

    async def _tell_all(self, caller: Caller) -> None:
        # Seeks first: one that is paired in between is then among the games, too.
        seeks = await self._meeting.open_seeks(caller.owner, self._bot)
        games = await self._meeting.started(caller, self._bot)
        self._waiting = {seek.seek_id for seek in seeks}
        self._playing = {game.game for game in games}
        shown = [
            OpenSeek(seek=seek.seek_id, pool=seek.pool, starts_by=timestamp(seek.starts_by)) for seek in seeks
        ]
        await self._send(LobbySnapshot(bot=self._bot, seeks=shown, games=games).model_dump_json())

    async def _tell_news(self, caller: Caller) -> None:
        waiting = {seek.seek_id for seek in await self._meeting.open_seeks(caller.owner, self._bot)}
        games = await self._meeting.started(caller, self._bot)
        for game in games:
            if game.game not in self._playing:
                await self._send(game.model_dump_json())
        for seek_id in sorted(self._waiting - waiting):
            seek = await self._meeting.ended(seek_id)
            if seek is not None and seek.status in ("withdrawn", "expired"):
                await self._send(SeekClosed(seek=seek_id, status=seek.status).model_dump_json())
        self._waiting = waiting
        self._playing = {game.game for game in games}

    async def _listen(self) -> NoReturn:
        while True:
            value: Any = None
            try:
                value = read_text(await self._receive())
                message = read_lobby_message(value)
                if isinstance(message, LobbyIdentify):
                    raise InvalidRequest("this connection has identified already", "/t", "identified")
            except (InvalidRequest, Unparsable) as fault:
                await self._send_refusal(refusal(message_id(value), fault))
                self._strike()
                continue
            await self._send(Ack(re=message.id).model_dump_json())
