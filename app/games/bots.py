"""Bots by name and version, and the check that each passes before it plays rated games.

A check is a game of the service itself, in which the bot plays every seat against itself. What it did is read
from what the service stored, so nobody has to be believed.
"""

from collections.abc import Iterable
from typing import Final

from app.base.clock import now_ms, timestamp
from app.base.errors import NotFound
from app.edge.auth import Caller
from app.games.bot_schemas import BotCheck, BotPage, BotView, CheckOutcome, CheckResult, NewBot, NewCheck
from app.games.schemas import BatchCreated, NewGames, SeatSpec
from app.games.seat_tokens import SeatTokens
from app.games.service import Games
from app.seats.remote_seat import RemoteSeat
from app.seats.seating import REMOTE
from app.store.bots import BotStore, PlayedCheck
from app.store.games import OPEN, GameStore, new_id
from app.store.rows import BotRow, GameRow, whole
from engine.errors import UNREADABLE, CorruptLog
from engine.terms import Kind
from evaluators.measures.defaults import DecisionCounter

__all__ = ["CHECK_LABEL", "Bots"]

MOST_BOTS: Final = 500
"""Names and versions that one owner may register."""

CHECK_LABEL: Final = "bot-check"
"""The label of the batches of checks; its value is the bot's id."""


CUT: Final = "1.1.vote."
"""The beginning of the ids of requests whose acknowledgement a check cuts off."""


class Bots:
    """Registers bots, has them checked, and shows them."""

    def __init__(self, store: BotStore, games: GameStore, service: Games, tokens: SeatTokens) -> None:
        self._store = store
        self._games = games
        self._service = service
        self._tokens = tokens

    async def register(self, new: NewBot, caller: Caller) -> tuple[BotView, bool]:
        """The caller's bot of this name and version, and whether it is new. Raises Forbidden for one too
        many.
        """
        known = await self._store.named(caller.owner, new.name, new.version)
        if known is not None:
            return await self._view(known, caller), False
        bot = BotRow(new_id("p"), caller.owner, new.name, new.version, now_ms())
        if await self._store.add(bot, MOST_BOTS):
            return await self._view(bot, caller), True
        return await self.register(new, caller)

    async def page(self, caller: Caller, *, owner: str | None, limit: int, cursor: str | None) -> BotPage:
        """A page of bots, newest first."""
        found, following = await self._store.page(owner=owner, limit=limit, cursor=cursor)
        return BotPage(bots=[await self._view(bot, caller) for bot in found], next=following)

    async def show(self, bot_id: str, caller: Caller) -> BotView:
        """One bot; to its owner with the result of its latest check. Raises NotFound."""
        return await self._view(await self._bot(bot_id), caller)

    async def own(self, bot_id: str, caller: Caller) -> BotRow:
        """A bot of the caller, its latest check taken into account: ``checked_at`` says whether it has passed
        one. Raises NotFound for others' bots and unknown ones.
        """
        bot = await self._bot(bot_id)
        if bot.owner != caller.owner:
            raise NotFound("you have no such bot")
        return (await self._settled(bot))[0]

    async def check(self, bot_id: str, new: NewCheck, caller: Caller) -> BotCheck:
        """Creates a game for the bot to play against itself. Raises NotFound for others' bots."""
        bot = await self.own(bot_id, caller)
        new_games = NewGames(
            profile=new.profile,
            players=new.players,
            seats=[SeatSpec(agent=REMOTE)],
            labels={CHECK_LABEL: bot.bot_id},
        )
        created: BatchCreated = await self._service.create(new_games, by=caller)
        game = (await self._tokens.with_tokens(created, caller)).games[0]
        await self._store.begin_check(bot.bot_id, game.game_id)
        return BotCheck(bot_id=bot.bot_id, game_id=game.game_id, profile=new.profile, seats=game.seats)

    async def cuts(self, seat: RemoteSeat, request_id: str) -> bool:
        """Whether the connection of a seat is cut in place of the acknowledgement of this answer: in checks,
        that of each seat's first vote. Whoever does not come back leaves the rest to the defaults.
        """
        if CHECK_LABEL not in seat.labels or not request_id.startswith(CUT):
            return False
        # Anybody may use the label.
        return await self._store.is_check(seat.game_id)

    async def _bot(self, bot_id: str) -> BotRow:
        bot = await self._store.bot(bot_id)
        if bot is None:
            raise NotFound("no such bot")
        return bot

    async def _view(self, bot: BotRow, caller: Caller) -> BotView:
        bot, check = await self._settled(bot)
        is_own = caller.grant is None and caller.owner == bot.owner
        return BotView(
            bot_id=bot.bot_id,
            owner=bot.owner,
            name=bot.name,
            version=bot.version,
            created_at=timestamp(bot.created_at),
            checked_at=None if bot.checked_at is None else timestamp(bot.checked_at),
            # The check's game shows how the bot plays and talks.
            check=check if is_own or caller.sees_all else None,
        )

    async def _settled(self, bot: BotRow) -> tuple[BotRow, CheckResult | None]:
        """The bot and the result of its latest check; a check that has just been passed is noted."""
        game = None if bot.check_game is None else await self._games.game(bot.check_game)
        if game is None:
            return bot, None
        played = await self._store.played(game.game_id)
        result = _result(game, played)
        if result.outcome == "passed" and (bot.checked_at or 0) < (passed_at := game.finished_at or now_ms()):
            await self._store.pass_check(bot.bot_id, passed_at)
            bot = await self._bot(bot.bot_id)
        return bot, result


def _result(game: GameRow, played: PlayedCheck) -> CheckResult:
    """What a check has shown so far."""
    asked = {Kind(request.split(".")[2]) for request in played.answered}
    faults = list(_faults(game, played))
    outcome: CheckOutcome
    if game.status in OPEN:
        outcome = "failed" if faults else "running"
    elif game.status == "finished":
        outcome = "failed" if faults else "passed"
    else:
        # Nobody's fault is known, so nothing is held against the bot.
        outcome = "void"
        faults.append(f"its game is {game.status}; begin another check")
    return CheckResult(
        game_id=game.game_id,
        outcome=outcome,
        why=faults,
        answered=len(played.answered),
        not_asked=[kind for kind in Kind if kind not in asked],
    )


def _faults(game: GameRow, played: PlayedCheck) -> Iterable[str]:
    for request, detail in played.refused:
        yield f"legal: the answer to {request} was refused: {detail}"
    for request in played.left_out:
        yield f"thoughts: thoughts of the answer to {request} were left out, since they do not fit"
    try:
        stored = whole(game.defaults)
        for seat, decisions in DecisionCounter.from_json(stored or {}).seats.items():
            for cause, number in sorted(decisions.defaulted.items()):
                yield f"answers: seat {seat} left {number} to the default ({cause})"
    except (CorruptLog, *UNREADABLE):
        yield "the counts of the game cannot be read; begin another check"
