"""A server, its games and its batches."""

import asyncio
import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self, Unpack

from interintent_client.backoff import PATIENCE
from interintent_client.errors import ApiError, ExportBroken, Unreachable
from interintent_client.evaluating import EvaluationCalls, Items
from interintent_client.evaluations import Dimension, ItemSettings
from interintent_client.http import Http
from interintent_client.records import Event, Json
from interintent_client.seat import Seat
from interintent_client.stream import Stream, TokenSource

__all__ = ["Batch", "Game", "Server"]

OVER: Final = frozenset({"done", "cancelled", "failed"})

SEEK_WAIT_S: Final = 20
"""Seconds for which one call waits for a game."""

_LIVE: Final = frozenset({"turn", "watchers", "speaking", "utterance_delta", "utterance_withdrawn"})
"""Statuses of a batch that is over."""


class Server(EvaluationCalls):
    """One server, called with one credential or with none."""

    def __init__(
        self,
        url: str = "http://localhost:8000",
        key: str | None = None,
        *,
        tries: int = 8,
        timeout_s: float = 30.0,
    ) -> None:
        """``tries``: how often one call is attempted while the server cannot be reached or is too busy."""
        self._http = Http(url, key, tries=tries, timeout_s=timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.__aexit__(kind, fault, trace)

    # --- games --------------------------------------------------------------------------------

    async def create_games(self, *, idempotency_key: str | None = None, **settings: Any) -> "Batch":
        """Creates games: ``count``, ``profile``, ``players``, ``seats``, ``drive``, … as in ``POST /games``.
        Without any of them it creates one game of scripted seats.

        The call is repeated when an answer is lost, but the games are created once. Raises ApiError.
        """
        answer = await self._http.post(
            "/games", settings, idempotency_key=idempotency_key or str(uuid.uuid4())
        )
        games = [
            self.game(game["game_id"], tokens={seat["seat"]: seat.get("token") for seat in game["seats"]})
            for game in answer["games"]
        ]
        return Batch(self, answer["batch_id"], answer["count"], games)

    def game(self, game_id: str, *, tokens: Mapping[int, str | None] | None = None) -> "Game":
        """An existing game. ``tokens``: the tokens that you have, by seat."""
        return Game(self, game_id, dict(tokens or {}))

    def batch(self, batch_id: str) -> "Batch":
        """An existing batch; its ``games`` stays empty, ``all_games`` lists its games."""
        return Batch(self, batch_id, None, [])

    async def games(
        self,
        *,
        status: str | None = None,
        batch: str | None = None,
        label: str | None = None,
        find: str | None = None,
    ) -> AsyncGenerator[Json]:
        """A summary of each game, newest batches first, page by page. Commas separate several statuses or
        batches. ``label``: only games of batches with this label, as ``name=value``. ``find``: words of which
        each is a part of something in the summary.
        """
        query = {"status": status, "batch": batch, "label": label, "find": find}
        async for page in self._http.pages("/games", **query, limit=200):
            for game in page["games"]:
                yield game

    async def import_record(self, record: Json, *, idempotency_key: str | None = None) -> "Game":
        """Stores an avalon-replay record as a finished game. Raises ApiError with the move and the rule
        that it breaks.
        """
        key = idempotency_key or str(uuid.uuid4())
        answer = await self._http.post("/games/import", record, idempotency_key=key)
        return self.game(answer["game_id"])

    async def find_seat(self, bot: str = "bot", **terms: Any) -> Seat | None:
        """Seeks a game as this bot, waits for it, and returns the seat, to be played. ``terms``: ``rated``,
        ``version``, ``players``, ``pace``, ``wait_s``, ``at_least``, … as in ``POST /seeks``. None if the
        seek ended without a game. Cancelled, it withdraws the seek. Needs ``bots:play``.

        The call is repeated when an answer is lost, but it leads to one seat.
        """
        post = self._http.post("/seeks", {"bot": bot, **terms}, idempotency_key=str(uuid.uuid4()))
        posting = asyncio.ensure_future(post)
        try:
            seek = await asyncio.shield(posting)
            while seek["status"] == "open":
                seek = await self._http.get(f"/seeks/{seek['seek_id']}", wait_s=SEEK_WAIT_S)
        except asyncio.CancelledError:
            with suppress(ApiError, Unreachable):
                # Its answer may still be under way.
                await self._http.delete(f"/seeks/{(await posting)['seek_id']}")
            raise
        found = seek["game"]
        if found is None:
            return None
        return self.game(found["game"], tokens={found["seat"]: found["token"]}).seat(found["seat"])

    async def lobby(self) -> Json:
        """Who waits for what, games with open seats, and the own open seeks. Needs ``bots:play``."""
        lobby: Json = await self._http.get("/seeks")
        return lobby

    async def profiles(self) -> Any:
        """The profiles: the sets of rules for games."""
        return await self._http.get("/profiles")

    async def intentions(self) -> list[Json]:
        """The catalogue of intentions."""
        intentions: list[Json] = await self._http.get("/intentions")
        return intentions


@dataclass(slots=True)
class Game:
    """One game."""

    _server: Server = field(repr=False)
    id: str
    tokens: dict[int, str | None] = field(repr=False)
    """The tokens of its remote seats, as far as known."""

    @property
    def _http(self) -> Http:
        return self._server._http

    def _stream(self, **options: Any) -> Stream:
        return Stream(self._http.url, self.id, **options)

    async def view(self, viewer: str | None = None) -> Json:
        """The game as it is now, for the caller's own viewer or for a ``viewer`` that sees less."""
        view: Json = await self._http.get(f"/games/{self.id}", viewer=viewer)
        return view

    async def log(self, *, after: int = 0, viewer: str | None = None) -> AsyncIterator[Event]:
        """The events so far, over HTTP: each exactly once, however often the connection breaks."""
        seen = after
        path = f"/games/{self.id}/events"

        def ask() -> Json:
            return {"after": seen, "viewer": viewer}

        async with aclosing(self._http.unbroken(path, ask, to_the_end=True)) as lines:
            async for line in lines:
                event = Event.read(json.loads(line))
                seen = event.seq
                yield event

    async def events(
        self,
        *,
        after: int = 0,
        viewer: str | None = None,
        token: TokenSource | None = None,
        patience: int | None = PATIENCE,
    ) -> AsyncIterator[Event]:
        """All events, past and new, to the end of the game, each exactly once.

        They come over a socket, which is reopened when it breaks. ``patience``: after this many failures in a
        row, Unreachable is raised, by default after about ten minutes; None waits for ever. Raises Closed if
        reconnecting would not help.
        """
        stream = self._stream(after=after, viewer=viewer, token=token or self._http.key, patience=patience)
        async with aclosing(stream.frames()) as frames:
            async for frame in frames:
                if frame["t"] == "events":
                    for event in frame["items"]:
                        yield event

    async def live(
        self,
        *,
        after: int = 0,
        viewer: str | None = None,
        token: TokenSource | None = None,
        patience: int | None = PATIENCE,
    ) -> AsyncIterator[Event | Json]:
        """As ``events``, and between them the frames of the live layer, as dictionaries: ``turn``,
        ``watchers`` and, to the full viewer, ``speaking``, ``utterance_delta``, ``utterance_withdrawn``.
        These are never repeated: what came while the connection was broken is lost.
        """
        stream = self._stream(
            after=after, viewer=viewer, token=token or self._http.key, patience=patience, live=True
        )
        async with aclosing(stream.frames()) as frames:
            async for frame in frames:
                if frame["t"] == "events":
                    for event in frame["items"]:
                        yield event
                elif frame["t"] in _LIVE:
                    yield frame

    def seat(self, seat: int, *, token: TokenSource | None = None, patience: int | None = PATIENCE) -> Seat:
        """A seat for this program to play, with the given token, or else the one from the game's creation.

        Without a token, the caller itself must be allowed to play the seat, as everybody is on a server
        without keys. ``token`` may also be an async function that mints a token; it is called again when the
        server refuses the last one. ``patience``: after this many failures in a row, the seat's iteration and
        ``act`` raise Unreachable, by default after about ten minutes; None waits for ever.
        """
        source = token or self.tokens.get(seat)
        latest: list[str | None] = [source if isinstance(source, str) else None]
        if source is None:
            stream = self._stream(token=self._http.key, viewer=f"seat:{seat}", sit=True, patience=patience)
        else:
            stream = self._stream(token=_kept(source, latest), patience=patience)
        return Seat(stream, self._http, f"/games/{self.id}", lambda: latest[0])

    async def mint_token(self, viewer: str, **more: Any) -> str:
        """A new token for ``seat:2`` (to play) or ``public`` (to watch). ``raise_epoch=True``
        revokes the seat's earlier tokens. Needs ``tokens:mint``.
        """
        minted = await self._http.post(f"/games/{self.id}/tokens", {"viewer": viewer, **more}, repeat=False)
        return str(minted["token"])

    async def fork(self, after: Json, **more: Any) -> "Game":
        """Creates a game with the same log up to a point: ``{"request": "2.1.speak.3"}``, or round, attempt
        and phase. ``more``: other ``seats``, ``drive``, … as in ``POST /games/{g}/fork``.

        Needs ``games:create``, and ``export:full`` unless the whole log is public. Callers who also have
        ``tokens:mint`` get the tokens of its remote seats.
        """
        path = f"/games/{self.id}/fork"
        forked = await self._http.post(path, {"after": after, **more}, repeat=False)
        tokens = {seat["seat"]: seat.get("token") for seat in forked["seats"]}
        return self._server.game(forked["game_id"], tokens=tokens)

    async def step(self, until: Literal["action", "phase", "round", "end"] = "action") -> Json:
        """Advances a game with ``drive: manual``. Returns its new events, open requests and status."""
        view: Json = await self._http.post(f"/games/{self.id}/step", {"until": until}, repeat=False)
        return view

    async def cancel(self) -> None:
        """Cancels the game. Its events are kept."""
        await self._http.post(f"/games/{self.id}/cancel", {}, repeat=False)

    async def delete(self) -> Json:
        """Deletes the game for good, once its batch is over, and returns what went. Needs ``admin``."""
        gone: Json = await self._http.delete(f"/games/{self.id}")
        return gone


def _kept(source: TokenSource, latest: list[str | None]) -> TokenSource:
    if isinstance(source, str):
        return source

    async def minted() -> str:
        latest[0] = token = await source()
        return token

    return minted


@dataclass(slots=True)
class Batch:
    """Games created together."""

    _server: Server = field(repr=False)
    id: str
    count: int | None
    games: list[Game]
    """The first hundred, with their tokens; ``all_games`` lists the rest."""
    damaged: list[str] = field(default_factory=list)
    """Games of the last export that the server could not read."""
    provenance: dict[str, Json] = field(default_factory=dict, repr=False)
    """By game of the last export, where it comes from: the line that opens it."""

    @property
    def _http(self) -> Http:
        return self._server._http

    async def view(self) -> Json:
        """The batch's counts, winners, tokens and cost so far."""
        view: Json = await self._http.get(f"/batches/{self.id}")
        return view

    async def all_games(self, status: str | None = None) -> AsyncIterator[Json]:
        """A summary of each game, page by page."""
        async with aclosing(self._server.games(status=status, batch=self.id)) as games:
            async for game in games:
                yield game

    async def progress(self) -> AsyncIterator[Json]:
        """The batch after each change until it is over; the last view holds the result."""
        path = f"/batches/{self.id}/events"
        async with aclosing(self._http.unbroken(path, lambda: {"follow": True})) as lines:
            async for line in lines:
                view = json.loads(line)
                yield view
                if view["status"] in OVER:
                    return

    async def done(self) -> Json:
        """Waits until the batch is over and returns its last view. While the batch is suspended, it waits for
        somebody to resume it.
        """
        last: Json = {}
        async for view in self.progress():
            last = view
        return last

    async def pause(self) -> None:
        """Stops the batch's games between two steps until it is resumed."""
        await self._http.post(f"/batches/{self.id}/pause", {}, repeat=False)

    async def resume(self, **changes: Any) -> None:
        """Lets a paused or suspended batch go on; ``changes``: e.g. ``on_unusable="default"``."""
        await self._http.post(f"/batches/{self.id}/resume", changes, repeat=False)

    def items(self, dimension: Dimension, *, page: int = 50, **settings: Unpack[ItemSettings]) -> Items:
        """The items of the batch's finished games, as in ``Server.items``."""
        return self._server.items(dimension, batch=self.id, page=page, **settings)

    async def mint_token(self, **more: Any) -> str:
        """A token for watching every game of the batch. Needs ``tokens:mint``."""
        return str((await self._http.post(f"/batches/{self.id}/tokens", more, repeat=False))["token"])

    async def cancel(self) -> None:
        """Ends every open game of the batch."""
        await self._http.post(f"/batches/{self.id}/cancel", {}, repeat=False)

    async def delete(self) -> Json:
        """Deletes the batch and all its games for good, once it is over, and returns what went. Needs
        ``admin``.
        """
        gone: Json = await self._http.delete(f"/batches/{self.id}")
        return gone

    async def export(
        self,
        view: Literal["public", "full"] = "public",
        *,
        partial: bool = False,
        on_line: Callable[[bytes], object] | None = None,
    ) -> AsyncIterator[Event]:
        """All events of all games, ordered by game and position; if the connection breaks, the export
        continues after the last line received.

        ``on_line`` is called with each line as received, including the last one, which holds the hash of
        the others. ``provenance`` has where each game comes from, which is no event. A game that the server
        cannot read has no events, and is in ``damaged`` afterwards.
        Raises ExportBroken when lines are missing or changed.
        """
        digest = hashlib.sha256()
        events = lines_read = 0
        games: set[str] = set()
        self.damaged = []
        self.provenance = {}
        path = f"/batches/{self.id}/export"

        def ask() -> Json:
            return {"view": view, "after": lines_read or None, "partial": partial or None}

        async with aclosing(self._http.unbroken(path, ask)) as lines:
            async for line in lines:
                read = json.loads(line)
                if read.get("t") == "export.end":
                    _check(read, events, None if partial else len(games), digest.hexdigest())
                    if on_line is not None:
                        on_line(line)
                    return
                digest.update(line + b"\n")
                lines_read += 1
                if on_line is not None:
                    on_line(line)
                if read.get("t") == "export.damaged":
                    self.damaged.append(read["game"])
                    continue
                games.add(read["game"])
                if read.get("type") == "provenance":
                    self.provenance[read["game"]] = read
                    continue
                events += 1
                yield Event.read(read)


def _check(end: Json, lines: int, games: int | None, sha256: str) -> None:
    # A partial export counts games that have not begun, but has no line about them.
    received = {"games": games, "events": lines, "sha256": sha256}
    for name, value in received.items():
        if value is not None and end[name] != value:
            raise ExportBroken(f"the export's last line says {name} {end[name]}, but {value} was read")
