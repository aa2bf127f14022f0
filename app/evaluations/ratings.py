"""Ratings of bots, and of the service's own agents, from the games that the server has paired."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Response
from pydantic import Field

from agents.kinds import REMOTE, asks_model
from app.base.errors import NotReady
from app.base.off_loop import off_loop
from app.base.problems import documented
from app.base.schemas import Shown
from app.edge.bodies import BodyRoute
from app.edge.deps import CallerDep, service
from app.store.games import ABSENT
from app.store.ratings import PairedGame, PairedState, RatingStore
from app.store.rows import PlayerRow, whole
from engine.errors import UNREADABLE, CorruptLog
from engine.events import GameCreated, RolesDealt
from engine.terms import Side, side_of
from evaluators.measures.defaults import EXCLUDE_ABOVE, DecisionCounter, SeatDecisions
from evaluators.measures.duels import Played
from evaluators.ratings.fit import Favour, PlayerRating, RatingLadder, WithLimits, favour, rate
from evaluators.ratings.games import Desertion, RatedGame, why_excluded
from evaluators.report.columns import rule_set
from evaluators.statistics.rates import Rate

__all__ = ["MISSING", "RatingsView", "StoredRatings", "router", "view_of"]

MISSING: Final = "ratings need numpy and scipy, which this server lacks: its operator can install them"

UNRATED: Final = "not rated"
SEVERAL: Final = "several bots of one owner at the table"
OFF_LADDER: Final = f"{SEVERAL}, with bots or rules that are not on the ladder"
DAMAGED: Final = "damaged where it was stored"

router = APIRouter(route_class=BodyRoute)


class Limited(Shown):
    """A number with the limits of its 95 % interval over games."""

    value: float
    low: float
    high: float


class Won(Shown):
    """Games won, of those played."""

    num: int
    den: int
    rate: float | None = Field(description="Null if `den` is 0.")


class BotOfRating(Shown):
    """Which bot a player is."""

    owner: str
    name: str
    version: str


class RatedPlayer(Shown):
    """A player's rating. The shares are expected ones, of games in which players of mean skill hold all other
    seats, by the rules of most games.
    """

    player: str = Field(description="A bot by owner, name and version; or an agent, such as `scripted`.")
    bot: BotOfRating | None = Field(description="Null: an agent of the service, or of a file's games.")
    best_rank: int = Field(description="One more than there are players that are certainly better.")
    worst_rank: int = Field(description="As many as there are players that are not certainly worse.")
    rating: Limited = Field(description="The share of games won with a seat that is dealt at random.")
    as_loyal: Limited
    as_evil: Limited
    skill: Limited = Field(description="In log odds a seat; 0 for a player of mean skill.")
    games: int
    deserted: int = Field(
        description="Games that the player left, so that a stand-in took its seat. Each counts as lost, for "
        "this player alone, and is not among `games`."
    )
    won_as_loyal: Won = Field(description="As it was, with the co-players and opponents that it had.")
    won_as_evil: Won
    decisions: int | None = Field(description="The requests that its seats answered. Null: not known.")
    defaulted: int | None = Field(
        description="How many of these decisions the player left to the default. They count as its play."
    )


class RulesOfRatings(Shown):
    rules: str
    loyal_wins: Limited = Field(description="Among players of mean skill.")
    games: int


class FavourView(Shown):
    """Whether players of one owner play better together, or let each other win. Rated games have one bot of
    an owner, so this is estimated from the paired games that are not rated for that reason, if all their bots
    and their rules are on the ladder.
    """

    games: int = Field(description="The games with several bots of one owner that this is estimated from.")
    together: Limited | None = Field(
        description="What a pair of one owner on one side adds to its side's log odds, beyond both skills. "
        "Null: no such game."
    )
    across: Limited | None = Field(
        description="What a pair of one owner on opposite sides adds to the log odds of its stronger bot's "
        "side; above 0: the weaker one lets it win. Null: no such game."
    )


class RatingsView(Shown):
    """The ladder."""

    games: int = Field(description="Games that are counted.")
    left_out: dict[str, int] = Field(description="Finished games that are not counted, by reason.")
    players: list[RatedPlayer] = Field(description="The highest rating first.")
    rules: list[RulesOfRatings] = Field(
        description="Those of most games first; the ratings are by the first."
    )
    deviation: float = Field(
        description="How far players differ in skill: the standard deviation, in log odds."
    )
    deviation_of_sides: float = Field(
        description="How far a player's skill as loyal and as evil differ from their mean, likewise."
    )
    favour: FavourView


class _Ready(NamedTuple):
    """Games, ready to be rated."""

    rated: list[RatedGame]
    deserted: list[Desertion]
    known: list[RatedGame]
    """The rated ones, and those that tell of favour."""
    bots: dict[str, PlayerRow]
    """A seat of each player that is a bot."""
    decisions: dict[str, SeatDecisions]
    """By player, of rated games."""
    left_out: Counter[str]


class StoredRatings:
    """The ladder of the database. It is computed again only when there are other games than the last time."""

    def __init__(self, store: RatingStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._made: tuple[PairedState, RatingsView] | None = None

    async def ladder(self) -> RatingsView:
        """The ratings of everybody who played rated games. Raises NotReady without numpy and scipy."""
        if find_spec("scipy") is None:
            raise NotReady(MISSING)
        if self._made is not None and self._lock.locked():
            return self._made[1]  # it is being computed again: nobody waits for that
        async with self._lock:
            state = await self._store.state()
            if self._made is None or self._made[0] != state:
                view = await off_loop(_made, await self._store.paired())
                self._made = state, view
            return self._made[1]


def _made(paired: Sequence[PairedGame]) -> RatingsView:
    ready = _ready(paired)
    owners = frozenset((player, row.owner) for player, row in ready.bots.items())
    return view_of(
        *_fitted(tuple(ready.rated), tuple(ready.deserted), tuple(ready.known), owners),
        ready.left_out,
        bots={
            player: BotOfRating(owner=row.owner, name=row.bot, version=row.version)
            for player, row in ready.bots.items()
        },
        decisions=ready.decisions,
    )


@lru_cache(maxsize=1)  # most games are casual and change nothing here
def _fitted(
    rated: tuple[RatedGame, ...],
    deserted: tuple[Desertion, ...],
    known: tuple[RatedGame, ...],
    owners: frozenset[tuple[str, str]],
) -> tuple[RatingLadder, Favour]:
    """``owners``: of each player that is a bot."""
    return rate(rated, deserted), favour(known, dict(owners))


def _ready(paired: Iterable[PairedGame]) -> _Ready:
    ready = _Ready([], [], [], {}, {}, Counter())
    several: list[tuple[RatedGame, set[str]]] = []
    """With the names of their bots."""
    for game in paired:
        try:
            known = _rated_game(game)
            stored = whole(game.defaults)
            decided = DecisionCounter.from_json(stored or {})
            models = [
                seat for seat, spec in enumerate(whole(game.seats), 1) if asks_model(str(spec.get("agent")))
            ]
        except (CorruptLog, *UNREADABLE):
            ready.left_out[DAMAGED] += 1
            continue
        why = why_excluded(decided, models, invalid=game.is_invalid, above=EXCLUDE_ABOVE)
        owners = [row.owner for row in game.players.values()]
        if why is None and len(set(owners)) < len(owners):
            why = SEVERAL
        elif why is None and not game.rated:
            why = ABSENT if game.unrated == ABSENT else UNRATED
        absent = any(row.absent_at is not None for row in game.players.values())
        if why == SEVERAL and not absent:
            several.append((known, {_name(row) for row in game.players.values()}))
        elif why is not None:
            ready.left_out[why] += 1
        if why == ABSENT:
            for seat, row in game.players.items():
                if row.absent_at is not None:
                    side = side_of(known.played.roles[seat - 1])
                    ready.deserted.append(Desertion(game.game_id, _name(row), side, known.rules))
                    ready.bots[_name(row)] = row
        if why is not None or absent:
            continue
        ready.rated.append(known)
        ready.known.append(known)
        for row in game.players.values():
            ready.bots[_name(row)] = row
        for seat, player in enumerate(known.played.agents, 1):
            decisions = ready.decisions.setdefault(player, SeatDecisions())
            decisions.add(decided.seats.get(seat, SeatDecisions()))
    # Anybody may play casual games under any number of names and rules, and each adds an effect to the fit,
    # whose cost grows with the cube of their number. Of what is on the ladder, each owner brings few.
    rules = {game.rules for game in ready.rated}
    for known, bots in several:
        tells = known.rules in rules and bots <= ready.bots.keys()
        ready.left_out[SEVERAL if tells else OFF_LADDER] += 1
        if tells:
            ready.known.append(known)
    return ready


def _rated_game(game: PairedGame) -> RatedGame:
    """The game with its players' names. Raises CorruptLog or one of UNREADABLE for a game that is damaged."""
    for seat, spec in enumerate(whole(game.seats), 1):
        if spec.get("agent") == REMOTE and seat not in game.players:
            raise CorruptLog(f"{game.game_id} does not say who played seat {seat}")
    created = next(event for event in game.opening if isinstance(event, GameCreated))
    dealt = next(event for event in game.opening if isinstance(event, RolesDealt))
    agents = tuple(
        _name(game.players[seat]) if seat in game.players else _called(spec)
        for seat, spec in enumerate(whole(game.seats), 1)
    )
    return RatedGame(rule_set(created.profile), Played(game.game_id, agents, dealt.roles, Side(game.winner)))


def _called(spec: Mapping[str, Any]) -> str:
    """The player in a seat that no bot holds: its kind, with the endpoint and mechanism of a model."""
    return " ".join(str(spec[name]) for name in ("agent", "model", "mechanism") if spec.get(name))


def _name(row: PlayerRow) -> str:
    # Name and version have no blanks, so no two bots share this.
    return f"{row.owner} {row.bot} {row.version}".rstrip()


def view_of(
    ladder: RatingLadder,
    favoured: Favour,
    left_out: Mapping[str, int],
    *,
    bots: Mapping[str, BotOfRating] | None = None,
    decisions: Mapping[str, SeatDecisions] | None = None,
) -> RatingsView:
    """A ladder as it is sent and printed."""
    bots = bots or {}
    return RatingsView(
        games=ladder.games,
        left_out=dict(sorted(left_out.items())),
        players=[
            _player(one, bots.get(one.player), None if decisions is None else decisions.get(one.player))
            for one in ladder.players
        ],
        rules=[
            RulesOfRatings(rules=one.rules, loyal_wins=_limited(one.loyal_wins), games=one.games)
            for one in ladder.rules
        ],
        deviation=ladder.deviation,
        deviation_of_sides=ladder.deviation_of_sides,
        favour=FavourView(
            games=favoured.games,
            together=None if favoured.together is None else _limited(favoured.together),
            across=None if favoured.across is None else _limited(favoured.across),
        ),
    )


def _player(one: PlayerRating, bot: BotOfRating | None, decisions: SeatDecisions | None) -> RatedPlayer:
    return RatedPlayer(
        player=one.player,
        bot=bot,
        best_rank=one.best_rank,
        worst_rank=one.worst_rank,
        rating=_limited(one.rating),
        as_loyal=_limited(one.as_loyal),
        as_evil=_limited(one.as_evil),
        skill=_limited(one.skill),
        games=one.games,
        deserted=one.deserted,
        won_as_loyal=_won(one.won_as_loyal),
        won_as_evil=_won(one.won_as_evil),
        decisions=None if decisions is None else decisions.decisions,
        defaulted=None if decisions is None else decisions.defaulted.total(),
    )


def _limited(value: WithLimits) -> Limited:
    return Limited(value=value.value, low=value.low, high=value.high)


def _won(rate: Rate) -> Won:
    return Won(num=rate.num, den=rate.den, rate=rate.rate)


@router.get("/ratings", summary="The ratings of bots", response_model=RatingsView, responses=documented(503))
async def show_ratings(
    ratings: Annotated[StoredRatings, service("ratings")], caller: CallerDep, response: Response
) -> RatingsView:
    """Everybody who played rated games, rated by one fit over all of these games. Open to every caller.

    A rated game was paired and dealt by the server, between bots that have passed a check, one of an owner.
    It counts once it has finished, unless a stand-in played in it, or reports exclude it. A bot whose seat a
    stand-in took has lost; for the others such a game does not count. `docs/ratings.md`
    says how the ratings come about.
    """
    response.headers["Cache-Control"] = "no-cache"
    return await ratings.ladder()
