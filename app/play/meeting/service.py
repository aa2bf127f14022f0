"""Where players meet: seeks are paired into games, and open seats are claimed.

A seek is paired in the transaction that stores its game, under the lock of its pool. So it is paired only
once, however many processes try. If a process dies on the way, the seek stays open, and any process can pair
it.
"""

import asyncio
import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from app.base.clock import now_ms, random_bits, steady_ms, timestamp
from app.base.errors import AlreadyOver, InvalidRequest, NotFound
from app.base.lifecycle import Lifecycle
from app.base.schemas import MAX_LABELS
from app.base.tasks import end_tasks, keep_going
from app.edge.auth import KEYLESS, SERVER, Caller, Keys
from app.edge.idempotency import RequestKey
from app.edge.quotas import Quotas
from app.games.access import own_seats
from app.games.bots import Bots
from app.games.dealing import players_of
from app.games.schemas import NewGames, SeatSpec
from app.games.seat_tokens import SeatTokens
from app.games.service import Games, Laid
from app.play.meeting.matching import ALIASES, AWAY_MS, Match, is_there, match
from app.play.meeting.schemas import (
    OPEN_SEAT,
    PACES,
    ClaimSeat,
    KeptSeek,
    LobbyView,
    NewOpenGame,
    NewSeek,
    OpenGameView,
    PoolView,
    SeekView,
)
from app.protocol.lobby import GameStarted
from app.seats.seating import REMOTE
from app.store.audit import Audit
from app.store.bots import BotStore
from app.store.db import PASSING, Conflict, Database
from app.store.games import ABSENT, OPEN, GameStore, new_id
from app.store.rows import GameRow, OpenGameRow, SeekRow, left_out_if_damaged, reading, whole
from app.store.seeks import LOBBY, OPEN_GAME, Paired, SeekStore, lock_owner
from app.stream.feed import Feed
from engine.errors import AvalonError
from engine.terms import Kind
from evaluators.ratings.games import INVALID

__all__ = ["Meeting", "lobby_name"]

log = structlog.get_logger()

LOOK_S: Final = 1.0
"""Seconds between checks whether a pool can be paired: the longest wait after a seeker's time is up."""

STILL_MS: Final = AWAY_MS + 15_000
"""For so long after the clock was set nobody's time is up: until all processes go by the new time, and have
seen whoever is there at it.
"""

KEPT_MS: Final = 7 * 24 * 3_600_000
"""How long seeks, and games with open seats, are kept that came to nothing."""

FORGET_EVERY_MS: Final = 3_600_000

STAND_IN_AFTER: Final = 3
"""Deadlines in a row after which a seat of a paired game is played by a stand-in."""

MOST_DESERTED: Final = 3
"""Rated games that a bot may leave before it has to be checked again."""

MOST_NEW: Final = 10
"""Versions of one owner's bots that may begin to play rated games within ``NEW_DAYS``. Each is a player of
the ladder for good, and many that have hardly played make everybody's ranks wider and move the mean.
"""

NEW_DAYS: Final = 30

_REMATCH: Final = "rematch:"

_LABEL: Final = "meeting"
"""The label of every game that was made here."""


def lobby_name(owner: str, bot: str) -> str:
    """The name of hints to a bot that one of its seeks has changed."""
    return f"{LOBBY}{hashlib.sha256(f'{owner}/{bot}'.encode()).hexdigest()[:32]}"


class Meeting:
    """Pairs seeks, and gives open seats away."""

    def __init__(
        self,
        database: Database,
        store: SeekStore,
        games: GameStore,
        bots: BotStore,
        service: Games,
        registered: Bots,
        tokens: SeatTokens,
        feed: Feed,
        quotas: Quotas,
        keys: Keys,
        lifecycle: Lifecycle,
    ) -> None:
        self._database = database
        self._store = store
        self._games = games
        self._bots = bots
        self._service = service
        self._registered = registered
        self._tokens = tokens
        self._feed = feed
        self._quotas = quotas
        self._audit = Audit(database)
        self._keys = keys
        self._lifecycle = lifecycle
        self._looking: asyncio.Task[None] | None = None
        self._forgets_at = 0
        self._ahead_ms: int | None = None
        """How far the time was ahead of the steady one at the latest look; None: nobody waited."""
        self._still_until = 0
        """Until when nobody's time is up, by the steady time."""

    def start(self) -> None:
        """Pairs what can be paired, from now on."""
        self._looking = keep_going(self._keep_looking, "pairing")

    async def stop(self) -> None:
        await end_tasks(self._looking)

    # --- seeking ----------------------------------------------------------------------------

    async def seek(self, new: NewSeek, caller: Caller, key: RequestKey | None = None) -> SeekView:
        """Stores a seek, and pairs it if others wait. A bot's repeated seek with the same terms is the open
        one. ``key``: under which the seek is kept for whoever repeats the request. Raises InvalidRequest,
        NotFound, QuotaExceeded.
        """
        if new.rematch_of is not None:
            return await self._rematch(new, new.rematch_of, key, caller)
        terms = {"rated": new.rated, "at_least": new.at_least}
        if new.rated:
            await self._needs_checked_bot(new, caller)
        _check_company(new, new.players)
        pool = f"{new.profile}/{new.players}/{new.pace}/{'rated' if new.rated else 'casual'}"
        starts_by = now_ms() + new.wait_s * 1000
        return await self._add(new.bot, new.version, pool, terms, starts_by, key, caller)

    async def _needs_checked_bot(self, new: NewSeek, caller: Caller) -> None:
        """Raises InvalidRequest unless this is a registered bot that has passed its check, and has not left
        too many games since.
        """
        if caller.owner == KEYLESS.owner:
            raise InvalidRequest(
                "rated games need owners that can be told apart: this service has no keys",
                "/rated",
                "keyless",
            )
        if new.version is None:
            raise InvalidRequest("a rating is about one version of a bot: name it", "/version", "missing")
        bot = await self._bots.named(caller.owner, new.bot, new.version)
        if bot is None:
            raise InvalidRequest(
                f"{new.bot} {new.version} is not registered: POST /bots", "/bot", "not_registered"
            )
        bot = await self._registered.own(bot.bot_id, caller)
        if bot.checked_at is None:
            raise InvalidRequest(
                f"{new.bot} {new.version} has not passed its check: POST /bots/{bot.bot_id}/check",
                "/bot",
                "not_checked",
            )
        deserted = await self._bots.deserted(bot)
        if deserted >= MOST_DESERTED:
            raise InvalidRequest(
                f"{new.bot} {new.version} has left {deserted} rated games since its last check, which were "
                f"void for the others: have it checked again, POST /bots/{bot.bot_id}/check",
                "/bot",
                "deserted",
            )

    async def _needs_room_on_ladder(self, connection: AsyncConnection, seek: SeekRow) -> None:
        """Raises InvalidRequest if this seek is for a new version, and its owner, who is locked, has brought
        too many others lately.
        """
        now = now_ms()
        # The seeks come first: one that is paired meanwhile is counted in its game, too, not in neither.
        waiting = await self._store.waiting_of(connection, seek.owner)
        first = await self._bots.first_rated(connection, seek.owner)
        for other in waiting:
            if other.seek_id != seek.seek_id and whole(other.terms).get("rated"):
                first.setdefault((other.bot, other.version), now)
        new = [at for at in first.values() if at > now - NEW_DAYS * 24 * 3_600_000]
        if (seek.bot, seek.version) not in first and len(new) >= MOST_NEW:
            raise InvalidRequest(
                f"{len(new)} versions of your bots have begun to play rated games within "
                f"{NEW_DAYS} days, the most that one owner may bring: play casual games with this one",
                "/version",
                "too_many_new",
            )

    async def _rematch(self, new: NewSeek, game_id: str, key: RequestKey | None, caller: Caller) -> SeekView:
        players = await self._store.players(game_id)
        if not any(player.owner == caller.owner and player.bot == new.bot for player in players):
            raise NotFound("no such game that this bot was paired for")
        game = await self._games.game(game_id)
        if game is None or game.status in OPEN:
            raise InvalidRequest("that game is not over yet", "/rematch_of", "not_over")
        # What a host chose is played on the host's account alone.
        if await self._games.owner(game.batch_id) != SERVER:
            raise InvalidRequest(
                "the server did not pair that game: ask its host for another one, or seek a game",
                "/rematch_of",
                "not_paired",
            )
        _check_company(new, len(players))
        terms = {"rated": False, "at_least": max(new.at_least, min(2, len(players)))}
        pool = f"{_REMATCH}{game_id}"
        starts_by = now_ms() + new.wait_s * 1000
        return await self._add(new.bot, new.version, pool, terms, starts_by, key, caller)

    async def _add(
        self,
        bot: str,
        version: str | None,
        pool: str,
        terms: Mapping[str, Any],
        starts_by: int,
        key: RequestKey | None,
        caller: Caller,
        seats: int | None = None,
    ) -> SeekView:
        """Stores a seek and pairs its pool. ``seats``, for the claim of an open seat: how many seeks of bots
        that are there the pool may hold. Raises AlreadyOver if none is left, and InvalidRequest where another
        version of the bot waits.
        """
        at = now_ms()
        seek = SeekRow(
            seek_id=new_id("q"),
            owner=caller.owner,
            caller=caller.name,
            bot=bot,
            version=version or "",
            pool=pool,
            terms=terms,
            created_at=at,
            starts_by=starts_by,
            seen_at=_seen_at(caller, at),
            status="open",
        )

        async def work(connection: AsyncConnection) -> SeekRow | None:
            await self._store.lock(connection, pool)
            if seats is not None:
                game = await self._store.locked_game(connection, pool.removeprefix(OPEN_GAME))
                if game is None or game.status != "open":
                    return None  # it began, or was given up, since it was looked at
            waiting = await self._store.waiting(connection, pool)
            others = [one for one in waiting if is_there(one, at) and not _same(one, seek)]
            if seats is not None and len(others) >= seats:
                return None
            added = await self._store.add(connection, seek)
            if added.version != seek.version:
                raise InvalidRequest(
                    f"{bot} {added.version} waits for this game already: withdraw its seek "
                    f"{added.seek_id} first",
                    "/version",
                    "other_version",
                )
            if added is seek:
                await lock_owner(connection, caller.owner)
                if terms.get("rated"):
                    await self._needs_room_on_ladder(connection, seek)
                await self._quotas.check_waiting(connection, caller.owner, "open_seeks")
                await self._quotas.take_games(connection, caller.owner, 1)
                if seats is not None:
                    game_id = pool.removeprefix(OPEN_GAME)
                    await self._audit.add(connection, caller, "claim", game_id, bot=bot, seek=seek.seek_id)
            elif key is not None:
                # What is kept of each repeat with another key takes room, too.
                await self._quotas.take(connection, caller.owner, "games_a_day")
            if key is not None:
                await key.keep(connection, 201, KeptSeek(seek_id=added.seek_id))
            return added

        stored = await self._database.writer.run(work)
        if stored is None:
            raise AlreadyOver("every open seat of this game is claimed, or it does not wait any more")
        self._feed.hint(lobby_name(caller.owner, bot))
        await self.pair(pool)
        return await self.show(stored.seek_id, caller)

    async def own(self, seek_id: str, caller: Caller) -> SeekRow:
        """A seek of the caller's owner. Raises NotFound."""
        seek = await self._store.seek(seek_id)
        if seek is None or seek.owner != caller.owner:
            raise NotFound("you have no such seek")
        return seek

    async def show(self, seek_id: str, caller: Caller, wait_s: float = 0.0) -> SeekView:
        """A seek of the caller's; with ``wait_s``, once it has ended, the time is up, or the service stops.
        Asking marks the bot as present. Raises NotFound, and Unauthenticated as soon as the caller's
        credential ends.
        """
        seek = await self.own(seek_id, caller)
        if seek.status == "open":
            await self.seen(caller, seek.bot)
            ends = time.monotonic() + wait_s
            with self._feed.watch(lobby_name(seek.owner, seek.bot)) as watch:
                while (seek := await self.own(seek_id, caller)).status == "open":
                    left_s = ends - time.monotonic()
                    if left_s <= 0 or self._lifecycle.draining:
                        break
                    # Hints may be lost.
                    await watch.wait(min(left_s, 2.0))
                    self._keys.check(caller)
        return await self._view(seek, caller)

    async def withdraw(self, seek_id: str, caller: Caller) -> SeekView:
        """Ends a seek. One that has ended stays as it is: it may have been paired. Raises NotFound."""
        seek = await self.own(seek_id, caller)
        if await self._store.withdraw(seek_id, now_ms()):
            self._feed.hint(lobby_name(seek.owner, seek.bot))
        return await self._view(await self.own(seek_id, caller), caller)

    async def lobby(self, caller: Caller) -> LobbyView:
        """The public counts of waiting seeks, and the caller's own seeks."""
        # First: whoever is read here is counted below, and not the other way round.
        seeks = []
        for seek in await self._store.open_of(caller.owner):
            with left_out_if_damaged():
                seeks.append(await self._view(seek, caller))
        pools = []
        claimed: dict[str, int] = {}
        for pool, waiting in (await self._store.present(now_ms() - AWAY_MS)).items():
            if pool.startswith(OPEN_GAME):
                claimed[pool.removeprefix(OPEN_GAME)] = waiting
            elif not pool.startswith(_REMATCH):
                profile, players, pace, kind = pool.split("/")
                pools.append(
                    PoolView.model_validate(
                        {
                            "profile": profile,
                            "players": int(players),
                            "pace": pace,
                            "rated": kind == "rated",
                            "waiting": waiting,
                        }
                    )
                )
        games = []
        for game in await self._store.waiting_games():
            with left_out_if_damaged():
                games.append(_open_view(game, claimed.get(game.game_id, 0), caller))
        return LobbyView(pools=pools, games=games, seeks=seeks)

    async def started(self, caller: Caller, bot: str) -> list[GameStarted]:
        """The games of the caller's bot that are not over, oldest first, each with a new token. Without those
        whose seat is somebody else's by now.
        """
        return [
            self._started(player.seek_id, player.seat, game, caller)
            for player, game in await self._store.running(caller.owner, bot)
            if player.seat in own_seats(game, caller.owner)
        ]

    async def open_seeks(self, owner: str, bot: str) -> list[SeekRow]:
        """The bot's seeks that wait."""
        return await self._store.open_of(owner, bot)

    async def ended(self, seek_id: str) -> SeekRow | None:
        """A seek as it is now; None: its game was deleted, and the seek with it."""
        return await self._store.seek(seek_id)

    async def seen(self, caller: Caller, bot: str) -> None:
        """Notes that the caller's bot is there."""
        await self._store.seen(caller.owner, bot, caller.name, _seen_at(caller, now_ms()))

    def _started(self, seek_id: str, seat: int, game: GameRow, caller: Caller) -> GameStarted:
        return GameStarted(
            seek=seek_id,
            game=game.game_id,
            seat=seat,
            token=self._tokens.of_player(game, seat, caller.name),
            # While the game runs, nobody learns that somebody is absent.
            rated=game.rated or game.unrated == ABSENT,
            at=timestamp(game.created_at),
        )

    async def _view(self, seek: SeekRow, caller: Caller) -> SeekView:
        game = None if seek.game_id is None else await self._games.game(seek.game_id)
        started = None
        if game is not None and seek.seat is not None:
            with reading(seek):
                has_seat = seek.seat in own_seats(game, caller.owner)
            if has_seat:
                started = self._started(seek.seek_id, seek.seat, game, caller)
        return SeekView(
            seek_id=seek.seek_id,
            status=seek.status,
            bot=seek.bot,
            version=seek.version or None,
            pool=seek.pool,
            rated=bool(whole(seek.terms).get("rated")),
            created_at=timestamp(seek.created_at),
            starts_by=timestamp(seek.starts_by),
            game=started,
            game_id=seek.game_id,
            game_status=None if game is None else game.status,
            unrated=None if game is None else _why_unrated(game),
        )

    # --- games with open seats --------------------------------------------------------------

    async def open_game(self, new: NewOpenGame, caller: Caller) -> OpenGameView:
        """Keeps a game with open seats until it can begin. Raises what creating it would raise."""
        for field, only in (("count", 1), ("drive", "auto"), ("rotate", False)):
            if getattr(new, field) != only:
                raise InvalidRequest(
                    f"open seats are for one game that is driven automatically: {field} can only be "
                    f"{orjson.dumps(only).decode()}",
                    f"/{field}",
                )
        for field in ("deal", "seeds"):
            if getattr(new, field) is not None:
                raise InvalidRequest(
                    "leave this out: the server deals games with open seats, so that no host knows the roles",
                    f"/{field}",
                    "known_deal",
                )
        if any(seat.agent == REMOTE for seat in new.seats):
            raise InvalidRequest(f"{REMOTE} seats are claimed, too: call them {OPEN_SEAT}", "/seats")
        if len({*new.labels, _LABEL}) > MAX_LABELS:
            raise InvalidRequest(
                f"the server adds the label {_LABEL}: leave room for it among the {MAX_LABELS}, "
                f"got {len(new.labels)}",
                "/labels",
                "count",
            )
        players = players_of(new)
        specs = list(new.seats) * players if len(new.seats) == 1 else list(new.seats)
        seats = [number for number, seat in enumerate(specs, 1) if seat.agent == OPEN_SEAT]
        if not seats:
            raise InvalidRequest(f"name at least one seat's agent {OPEN_SEAT}", "/seats", "none_open")
        spec = new.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"wait_s"})
        remote = SeatSpec(agent=REMOTE).model_dump(mode="json", exclude_unset=True)
        spec["seats"] = [
            remote if seat.agent == OPEN_SEAT else seat.model_dump(mode="json", exclude_unset=True)
            for seat in specs
        ]
        spec.setdefault("stand_in_after", STAND_IN_AFTER)
        self._service.dealer.check(NewGames.model_validate(spec))
        await self._service.check_models_quota(caller.owner, (seat.agent for seat in specs))
        at = now_ms()
        game = OpenGameRow(
            game_id=new_id("g"),
            owner=caller.owner,
            caller=caller.name,
            created_at=at,
            starts_by=at + new.wait_s * 1000,
            spec=spec,
            seats=seats,
            status="open",
        )

        async def work(connection: AsyncConnection) -> None:
            await self._store.add_game(connection, game)
            await lock_owner(connection, caller.owner)
            await self._quotas.check_waiting(connection, caller.owner, "waiting_games")
            await self._quotas.take_games(connection, caller.owner, 1)
            await self._audit.add(connection, caller, "create", game.game_id, open_seats=len(seats))

        await self._database.writer.run(work)
        return _open_view(game, 0, caller)

    async def withdraw_game(self, game_id: str, caller: Caller) -> OpenGameView:
        """Gives up a game that has not begun; the seeks of those who claimed seats end. Raises NotFound."""
        game = await self._store.open_game(game_id)
        if game is None or game.owner != caller.owner:
            raise NotFound("you have no such game with open seats")
        pool = f"{OPEN_GAME}{game_id}"
        ended: list[SeekRow] = []

        async def work(connection: AsyncConnection) -> None:
            await self._store.lock(connection, pool)
            ended.clear()
            if await self._store.close_game(connection, game_id, "withdrawn"):
                ended.extend(await self._store.waiting(connection, pool))
                at = now_ms()
                await self._store.expire(connection, [seek.seek_id for seek in ended], at)
                await self._audit.add(connection, caller, "withdraw", game_id)

        await self._database.writer.run(work)
        self._tell(ended)
        game = await self._store.open_game(game_id)
        assert game is not None
        # Those who had claimed a seat of a game that did not begin have none any more.
        claimed = len(await self._store.players(game_id)) if game.status == "begun" else 0
        return _open_view(game, claimed, caller)

    async def claim(
        self, game_id: str, claim: ClaimSeat, caller: Caller, key: RequestKey | None = None
    ) -> SeekView:
        """A seat of a game with open seats, as a seek that waits for the game to begin; ``key``: as in
        ``seek``. Raises NotFound, AlreadyOver.
        """
        game = await self._store.open_game(game_id)
        if game is None:
            raise NotFound("no such game with open seats")
        if game.status != "open":
            raise AlreadyOver("this game does not wait for players any more")
        terms = {"rated": False, "at_least": 1}
        pool = f"{OPEN_GAME}{game_id}"
        return await self._add(
            claim.bot, claim.version, pool, terms, game.starts_by, key, caller, seats=len(whole(game.seats))
        )

    # --- pairing ----------------------------------------------------------------------------

    async def pair(self, pool: str, *, late: bool = False) -> None:
        """Pairs the seeks of a pool, as long as full games begin. ``late``: those whose time is up play with
        those who are there, or end.
        """
        while True:
            try:
                laid, paired, expired = await self._pair_once(pool, late)
            except Conflict:
                continue  # one of them was withdrawn at this moment
            if laid is not None:
                await self._service.begin(laid)
            self._tell([*(each.seek for each in paired), *expired])
            if laid is None:
                return

    async def _pair_once(self, pool: str, late: bool) -> tuple[Laid | None, list[Paired], Sequence[SeekRow]]:
        new, seats = (None, 0) if pool.startswith(OPEN_GAME) else await self._terms(pool)

        async def work(connection: AsyncConnection) -> tuple[Laid | None, list[Paired], Sequence[SeekRow]]:
            await self._store.lock(connection, pool)
            waiting = await self._store.waiting(connection, pool)
            now = now_ms()
            if pool.startswith(OPEN_GAME):
                return await self._begin_open(connection, pool.removeprefix(OPEN_GAME), waiting, now, late)
            if not waiting:
                return None, [], ()
            rated = pool.endswith("/rated")
            barred = await self._deserters(connection, waiting) if rated else []
            able = [seek for seek in waiting if seek not in barred]
            matched = match(able, seats, now, one_per_owner=rated, due=None if late else False)
            matched = replace(matched, expired=(*matched.expired, *barred))
            if new is None:
                matched = Match((), tuple(waiting))  # the game that they played is gone
            await self._store.expire(connection, [seek.seek_id for seek in matched.expired], now)
            if not matched.paired or new is None:
                return None, [], matched.expired
            alone = rated and len(matched.paired) < 2
            laid, paired = self._lay(
                new,
                matched.paired,
                rated=rated and not alone,
                unrated="nobody else came" if alone else None,
            )
            await self._store_paired(connection, laid, paired, now)
            return laid, paired, matched.expired

        return await self._database.writer.run(work)

    async def _deserters(self, connection: AsyncConnection, waiting: Sequence[SeekRow]) -> list[SeekRow]:
        """The seeks of bots that have left too many games since they sought."""
        bots = await self._bots.deserters(connection, waiting, MOST_DESERTED)
        return [seek for seek in waiting if (seek.owner, seek.bot, seek.version) in bots]

    async def _terms(self, pool: str) -> tuple[NewGames | None, int]:
        """The game that a pool waits for, with ``remote`` seats for a full one, and how many those are."""
        if pool.startswith(_REMATCH):
            before = await self._games.game(pool.removeprefix(_REMATCH))
            batch = None if before is None else await self._games.batch(before.batch_id)
            if batch is None or batch.owner != SERVER:
                return None, 0
            players = await self._store.players(pool.removeprefix(_REMATCH))
            spec = {name: value for name, value in whole(batch.spec).items() if name != "names"}
            new = NewGames.model_validate({**spec, "labels": {_LABEL: "rematch"}})
            return new, len(players)
        profile, players_, pace, kind = pool.split("/")
        seconds = PACES[pace]
        deadlines = {} if seconds is None else {each.value: seconds for each in Kind}
        new = NewGames.model_validate(
            {
                "profile": profile,
                "players": int(players_),
                "seats": [{"agent": REMOTE}] * int(players_),
                "deadlines_s": deadlines,
                "stand_in_after": STAND_IN_AFTER,
                "labels": {_LABEL: kind},
            }
        )
        return new, int(players_)

    def _lay(
        self, new: NewGames, seekers: Sequence[SeekRow], *, rated: bool, unrated: str | None
    ) -> tuple[Laid, list[Paired]]:
        """A game that the server sets up: chance decides who sits where and under which name."""
        chance = random.Random(random_bits(128))
        specs = list(new.seats)
        if new.deal is None:
            chance.shuffle(specs)
        remote = [number for number, spec in enumerate(specs, 1) if spec.agent == REMOTE]
        chance.shuffle(remote)
        for number in remote[len(seekers) :]:
            specs[number - 1] = SeatSpec(agent="scripted")
        names = chance.sample(ALIASES, len(specs))
        new = new.model_copy(
            update={
                "seats": specs,
                "names": {str(number): name for number, name in enumerate(names, 1)},
            }
        )
        laid = self._service.lay(new, SERVER, rated=rated, unrated=unrated)
        return laid, [Paired(seek, seat) for seek, seat in zip(seekers, remote, strict=False)]

    async def _begin_open(
        self, connection: AsyncConnection, game_id: str, waiting: Sequence[SeekRow], now: int, late: bool
    ) -> tuple[Laid | None, list[Paired], Sequence[SeekRow]]:
        game = await self._store.locked_game(connection, game_id)
        if game is None or game.status != "open":
            await self._store.expire(connection, [seek.seek_id for seek in waiting], now)
            return None, [], waiting
        seats = list(whole(game.seats))
        due = late and game.starts_by <= now
        matched = match(waiting, len(seats), now, one_per_owner=False, due=due)
        await self._store.expire(connection, [seek.seek_id for seek in matched.expired], now)
        if not matched.paired:
            if due:
                await self._store.close_game(connection, game_id, "expired")
            return None, [], matched.expired
        new = NewGames.model_validate(whole(game.spec))
        random.Random(random_bits(128)).shuffle(seats)
        specs = list(new.seats)
        for seat in seats[len(matched.paired) :]:
            specs[seat - 1] = SeatSpec(agent="scripted")
        new = new.model_copy(update={"seats": specs, "labels": {**new.labels, _LABEL: "open"}})
        try:
            laid = self._service.lay(new, game.owner, game_id=game_id)
        except AvalonError as fault:  # such as an endpoint that was removed meanwhile
            log.warning("a game with open seats cannot begin", game=game_id, cause=str(fault))
            await self._store.close_game(connection, game_id, "expired")
            await self._store.expire(connection, [seek.seek_id for seek in waiting], now)
            return None, [], waiting
        paired = [Paired(seek, seat) for seek, seat in zip(matched.paired, seats, strict=False)]
        if not await self._store.close_game(connection, game_id, "begun"):
            raise Conflict(f"{game_id} was given up")
        await self._store_paired(connection, laid, paired, now)
        return laid, paired, matched.expired

    async def _store_paired(
        self, connection: AsyncConnection, laid: Laid, paired: Sequence[Paired], now: int
    ) -> None:
        await self._service.insert(connection, laid)
        await self._store.pair(connection, laid.game.game_id, laid.batch.owner, paired, now)

    def _tell(self, seeks: Sequence[SeekRow]) -> None:
        for seek in seeks:
            self._feed.hint(lobby_name(seek.owner, seek.bot))

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look()
            except PASSING as fault:
                log.warning("cannot look for seeks to pair; it is tried again", cause=type(fault).__name__)

    async def _look(self) -> None:
        """Pairs the pools whose seeks another process could not pair, and those whose time is up."""
        now = now_ms()
        if now >= self._forgets_at:
            self._forgets_at = now + FORGET_EVERY_MS
            await self._store.forget(now - KEPT_MS)
        pools, games = await self._store.pools(), await self._store.waiting_games()
        if not pools and not games:
            self._ahead_ms = None
            return
        late = await self._goes_by_time()
        now = now_ms()
        for pool in pools:
            if (late and pool.starts_by <= now) or pool.waiting >= _fewest(pool.name):
                await self._pair_if_possible(pool.name, late)
        for game in games:
            if late and game.starts_by <= now:
                await self._pair_if_possible(f"{OPEN_GAME}{game.game_id}", late)

    async def _goes_by_time(self) -> bool:
        """Whether somebody's time can be up now, by the database's clock: not for a while after it was set.
        What waits since a time that is in the future by now is put right.
        """
        await self._database.agree_on_time()
        steady = steady_ms()
        now = now_ms()
        before, ahead = self._ahead_ms, now - steady
        if before is None or abs(ahead - before) > AWAY_MS:
            if before is not None:
                self._still_until = steady + STILL_MS
            await self._store.put_right(now)
        self._ahead_ms = ahead
        return steady >= self._still_until

    async def _pair_if_possible(self, pool: str, late: bool) -> None:
        """As ``pair``; an error that has to do with this pool alone does not keep others waiting."""
        try:
            await self.pair(pool, late=late)
        except PASSING:
            raise
        except Exception:
            log.exception("a pool cannot be paired", pool=pool)


def _fewest(pool: str) -> int:
    """With how many seeks a game of this pool may be full."""
    return 1 if pool.startswith((OPEN_GAME, _REMATCH)) else int(pool.split("/")[1])


def _check_company(new: NewSeek, players: int) -> None:
    """Raises InvalidRequest if so many cannot come together."""
    if new.at_least > players:
        raise InvalidRequest(f"a game of {players} players has no {new.at_least} seekers", "/at_least")


def _seen_at(caller: Caller, now: int) -> int:
    """The moment at which a bot counts as seen that is there now: it is away once its key has expired."""
    return now if caller.expires_at is None else min(now, caller.expires_at - AWAY_MS - 1)


def _why_unrated(game: GameRow) -> str | None:
    """Why a game is not rated whose players sought a rated one; None: it is, it is not over, or they did not
    seek that.
    """
    if game.status in OPEN or not (game.rated or game.unrated):
        return None
    if game.invalid is not None:
        return INVALID
    return {"cancelled": "the game was cancelled", "failed": "the game failed"}.get(game.status, game.unrated)


def _same(one: SeekRow, other: SeekRow) -> bool:
    return (one.owner, one.bot) == (other.owner, other.bot)


def _open_view(game: OpenGameRow, claimed: int, caller: Caller) -> OpenGameView:
    """Raises CorruptLog."""
    with reading(game):
        spec = whole(game.spec)
        new = NewGames.model_validate(spec)
        return OpenGameView(
            game_id=game.game_id,
            status=game.status,
            profile=new.profile,
            players=len(spec["seats"]),
            seats=sorted(whole(game.seats)),
            claimed=claimed,
            created_at=timestamp(game.created_at),
            starts_by=timestamp(game.starts_by),
            yours=game.owner == caller.owner,
        )
