"""Finished games, the items cut from them, and the scores of answers to these items."""

from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Literal

import structlog

from app.base.errors import InvalidRequest, NotFound, Unfinished
from app.base.off_loop import off_loop
from app.evaluations.rater_work import judgements_from
from app.evaluations.schemas import AnswerSpec, ScoredItem
from app.store.cursors import read_cursor, unknown_cursor, write_cursor
from app.store.evaluations import EvaluationStore, Whose
from app.store.games import LOST, GameStore
from app.store.log import LogReader, corrupt_if_damaged
from app.store.rows import AnswerRow
from app.store.tables import games as game_rows
from engine.errors import UNREADABLE, CorruptLog
from evaluators.errors import UnknownItem, Unmeasurable
from evaluators.ground.answers import Guess, Unmapped, guesses_by_game, guesses_of
from evaluators.ground.items import Dimension, Excluded, Followed, Item, Variant, items, parse_id
from evaluators.ground.judgements import follow_scores
from evaluators.ground.turns import Game, read_game
from evaluators.measures.defaults import DecisionCounter
from evaluators.measures.scoring import RoleScores, Totals
from evaluators.report.columns import model_seats

__all__ = [
    "DAMAGED",
    "SHOWING",
    "FinishedGames",
    "Items",
    "PagedItems",
    "RatersOn",
    "ScoreCount",
    "Turn",
    "check_answers",
    "no_such_game",
    "scored_item",
    "why_excluded",
]

log = structlog.get_logger()

DAMAGED: Final = "damaged"
"""The reason that is given for an unreadable game, which has no items; counted once for each game."""

SHOWING: Final[frozenset[Dimension]] = frozenset({"selection", "following"})
"""Dimensions whose items show what was chosen, so that only raters may see them."""

RatersOn = Callable[[Collection[str]], Awaitable[Whose | None]]
"""Says whose judgements of some games are read."""

Turn = tuple[str, str]
"""A speaking turn: the id of its game, and the id of its request."""

_KEPT: Final = 128
"""The most games that are kept in memory, since a page of items, its annotation and its scoring need the same
games. A finished game never changes."""


class FinishedGames:
    """Reads finished games from the store."""

    def __init__(self, store: GameStore, reader: LogReader) -> None:
        self._store = store
        self._reader = reader
        self._kept: OrderedDict[str, Game] = OrderedDict()

    async def is_excluded(self, game_id: str, above: float) -> bool:
        """Whether the finished game says nothing about raters: it was marked as invalid, or its models
        defaulted a larger share of their decisions than ``above``. Raises as ``by_id``.
        """
        row = await self._store.game(game_id)
        if row is not None and row.invalid is not None:
            return True
        game = await self.by_id(game_id)
        share = DecisionCounter(game.log).of_models(model_seats(game) or None).rate
        return share is not None and share > above

    async def by_id(self, game_id: str, *, sees_all: bool = True) -> Game:
        """A finished game. Raises NotFound if there is no such game and, unless ``sees_all``, for a fork of a
        game that may still go on; Unfinished for a game that is not over or cannot be measured (a cancelled
        game, a record without its deal); CorruptLog for a game that cannot be read.
        """
        row = await self._store.game(game_id)
        if row is None or (not sees_all and row.forked_from and await self._store.ahead([game_id])):
            raise NotFound("no such game for this caller")
        if row.status != "finished":
            raise Unfinished(f"only finished games have items, this one is {row.status}")
        kept = self._kept.get(game_id)
        if kept is None:
            with corrupt_if_damaged(game_id):
                log = await self._reader.events(game_id)
            try:
                kept = await off_loop(read_game, game_id, log)
            except Unmeasurable as reason:
                raise Unfinished(str(reason)) from None
            except UNREADABLE as fault:
                raise CorruptLog(f"{game_id} cannot be read: {type(fault).__name__}") from None
            self._kept[game_id] = kept
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(game_id)
        return kept

    async def first_played(self, turns: Collection[Turn]) -> dict[Turn, Turn]:
        """Maps each turn to the same turn in the game in which it was first played, since a fork shares its
        past with its source.
        """
        played = {turn: turn for turn in turns}
        for game_id in {game_id for game_id, _ in turns}:
            if sources := await self._sources(game_id):
                for turn in (await self.by_id(game_id)).turns:
                    owner = game_id
                    for source in sources:
                        if turn.utterance >= source["events"]:
                            break
                        owner = source["game_id"]
                    if (game_id, turn.request_id) in played:
                        played[game_id, turn.request_id] = owner, turn.request_id
        return played

    async def origin(self, game_id: str) -> str:
        """The game at the beginning of this game's forks; the game itself if it is no fork."""
        return (await self.lineage(game_id))[-1]

    async def lineage(self, game_id: str) -> tuple[str, ...]:
        """This game and the games from which it was forked, nearest first."""
        return (game_id, *(source["game_id"] for source in await self._sources(game_id)))

    async def has_all_sources(self, game_id: str) -> bool:
        """Whether none of the games in which its turns were first played was deleted."""
        sources = await self._sources(game_id)
        there = not sources or await self._store.game(sources[-1]["game_id"]) is not None
        return there and not any(source.get(LOST) for source in sources)

    async def _sources(self, game_id: str) -> list[Mapping[str, Any]]:
        """From which game this game was forked, from which that one, and so on: each with its ``game_id`` and
        the number of ``events`` taken from it.
        """
        sources: list[Mapping[str, Any]] = []
        while (row := await self._store.game(game_id)) is not None and (origin := row.forked_from):
            sources.append(origin)
            game_id = origin["game_id"]
        return sources


_PLACE: Final = {"game_id": game_rows.c.game_id, "index": game_rows.c.position}
"""The values in a cursor of a page of items: a game, and the index of the page's first item in it, from 0."""


@dataclass(frozen=True, slots=True)
class PagedItems:
    """A page of items."""

    items: list[Item]
    excluded: Counter[str]
    next: str | None


class Items:
    """Cuts items from stored games, and scores answers to them."""

    def __init__(self, games: FinishedGames, store: EvaluationStore) -> None:
        self._games = games
        self._store = store

    async def variant(
        self, variant: Variant, games: Collection[str], *, followed: bool, raters: RatersOn
    ) -> Variant:
        """The variant. If ``followed``, it gets the filter on intentions that were followed, according to
        these raters' judgements.
        """
        if not followed:
            return variant
        judgements = judgements_from(await self._store.judgements_of(games, whose=await raters(games)))
        return replace(variant, followed=Followed(follow_scores(judgements)))

    async def stored_variant(self, variant: Mapping[str, Any], game_id: str, raters: RatersOn) -> Variant:
        """Like ``variant``, for one game, and for a variant in the form that is stored with an evaluation."""
        followed = bool(variant["followed"])
        return await self.variant(Variant.scored(variant), [game_id], followed=followed, raters=raters)

    async def page(
        self,
        games: list[str],
        dimension: Dimension,
        variant: Variant,
        *,
        followed: bool,
        raters: RatersOn,
        limit: int,
        cursor: str | None,
    ) -> PagedItems:
        """The next items of these games, at most ``limit``, in the order of the games and their logs.
        Unreadable games are left out and counted. Raises InvalidRequest for a cursor of other games.
        """
        start, skip = (0, 0) if cursor is None else _place(cursor, games)
        page: list[Item] = []
        excluded: Counter[str] = Counter()
        for place in range(start, len(games)):
            try:
                game = await self._games.by_id(games[place])
            except CorruptLog:
                excluded[DAMAGED] += 1
                continue
            filtered = await self.variant(variant, [game.id], followed=followed, raters=raters)
            of_game: Counter[Excluded] = Counter()
            before = skip if place == start else 0
            up_to = before + limit - len(page)
            some = await off_loop(_first_items, game, dimension, filtered, up_to + 1, of_game)
            page += some[before:up_to]
            if len(some) > up_to:
                return PagedItems(page, excluded, write_cursor(game.id, up_to))
            # Counted with the last item, so that a game that is divided between pages is counted once.
            excluded.update({str(reason): n for reason, n in of_game.items()})
        return PagedItems(page, excluded, None)

    async def all(
        self, games: list[str], dimension: Dimension, variant: Variant, *, followed: bool, raters: RatersOn
    ) -> AsyncIterator[tuple[Game, list[Item]]]:
        """Every item, game by game; unreadable games are left out and logged."""
        for game_id in games:
            try:
                game = await self._games.by_id(game_id)
            except CorruptLog as fault:
                log.error("a game is left out of items", game=game_id, cause=str(fault))
                continue
            filtered = await self.variant(variant, [game_id], followed=followed, raters=raters)
            yield game, await off_loop(_first_items, game, dimension, filtered, None, Counter())

    # --- scores -----------------------------------------------------------------------------

    async def check(
        self, answers: Sequence[AnswerSpec], dimension: Dimension, variant: Mapping[str, Any]
    ) -> None:
        """Raises InvalidRequest for an answer to something that is no item of its game.

        Answers to items that do not count are accepted too, since a refusal would reveal part of the gold.
        """
        by_game: dict[str, list[tuple[int, str]]] = {}
        for place, answer in enumerate(answers):
            by_game.setdefault(parse_id(answer.item_id).game_id, []).append((place, answer.item_id))
        for game_id, asked in by_game.items():
            try:
                game = await self._games.by_id(game_id)
            except NotFound:
                raise no_such_game(asked[0][0]) from None
            known = await off_loop(_ids, game, dimension, Variant.scored(variant))
            for place, item_id in asked:
                if item_id not in known:
                    raise InvalidRequest(
                        "this game has no such item; GET /evaluations/items lists them",
                        f"/answers/{place}/item_id",
                        "unknown_item",
                    )

    async def score(
        self, dimension: Dimension, answers: Sequence[AnswerRow], variant: Mapping[str, Any], raters: RatersOn
    ) -> dict[str, Any]:
        """The scores of stored answers: ``items``, how many items they answer, and as ``full`` the
        ``totals``, what is known of ``roles`` and, as ``open_book``, of roles that are public, and which
        answers do not count (``excluded``).
        """
        guesses = await off_loop(guesses_of, answers)
        count = ScoreCount(variant["unmapped"])
        for game_id, of_game in sorted(guesses_by_game(guesses).items()):
            try:
                game = await self._games.by_id(game_id)
            except CorruptLog:
                count.excluded[DAMAGED] += len(of_game)
                continue
            filtered = await self.stored_variant(variant, game_id, raters)
            await off_loop(_score_game, game, dimension, filtered, of_game, count)
        return {"items": len(guesses), "full": await off_loop(count.as_json)}

    async def per_item(
        self, dimension: Dimension, answers: Sequence[AnswerRow], variant: Mapping[str, Any], raters: RatersOn
    ) -> tuple[list[ScoredItem], list[str]]:
        """Every item of an evaluation with its gold, and the games that cannot be read, whose items are left
        out.
        """
        guesses = await off_loop(guesses_of, answers)
        scored: dict[str, ScoredItem] = {}
        damaged = []
        for game_id, of_game in guesses_by_game(guesses).items():
            try:
                game = await self._games.by_id(game_id)
                filtered = await self.stored_variant(variant, game_id, raters)
            except (CorruptLog, NotFound) as fault:  # answers go with their game, unless its row lost its id
                log.error("the items of a game are left out", game=game_id, cause=str(fault))
                damaged.append(game_id)
                continue
            scored |= await off_loop(_scored_items, game, dimension, filtered, of_game)
        return [scored[item_id] for item_id in guesses if item_id in scored], damaged


def no_such_game(place: int) -> InvalidRequest:
    """The refusal of the answer at this place: its game is none, or out of the caller's reach."""
    return InvalidRequest("no such game for this caller", f"/answers/{place}/item_id", "unknown_item")


def check_answers(dimension: Dimension, answers: Sequence[AnswerSpec]) -> None:
    """Raises InvalidRequest for an answer to anything but an item of this dimension, for a sample that is
    given twice, and for a role in any dimension but guessing. Nothing is looked up.
    """
    given: set[tuple[str, int]] = set()
    for place, answer in enumerate(answers):
        pointer = f"/answers/{place}"
        try:
            parts = parse_id(answer.item_id)
        except UnknownItem as fault:
            # The rest of the message repeats what was sent.
            message = str(fault).partition(", got ")[0]
            raise InvalidRequest(message, f"{pointer}/item_id", "item_id") from None
        if parts.dimension != dimension:
            raise InvalidRequest(f"this is a {parts.dimension} item", f"{pointer}/item_id", "dimension")
        if answer.role is not None and dimension != "guessing":
            raise InvalidRequest("only guesses name a role", f"{pointer}/role", "role")
        if (answer.item_id, answer.sample) in given:
            raise InvalidRequest("this sample of the item was given above", pointer, "twice")
        given.add((answer.item_id, answer.sample))


def _first_items(
    game: Game, dimension: Dimension, variant: Variant, count: int | None, excluded: Counter[Excluded]
) -> list[Item]:
    """``count``: the most items; None: all. ``excluded`` is right only if these are all."""
    return list(islice(items(game, dimension, variant, excluded=excluded), count))


def _place(cursor: str, games: list[str]) -> tuple[int, int]:
    """The beginning of a page: the index of its first game, and how many items of that game to skip. The
    cursor names the game by its id, since indices change when other games finish.
    """
    game_id, index = read_cursor(cursor, _PLACE)
    if game_id not in games:
        raise unknown_cursor(" for this question")
    return games.index(game_id), index


def _ids(game: Game, dimension: Dimension, variant: Variant) -> frozenset[str]:
    return frozenset(item.id for item in items(game, dimension, variant))


class ScoreCount:
    """The scores of one rater's answers, game by game."""

    def __init__(self, unmapped: Unmapped) -> None:
        self.totals = Totals(unmapped)
        self.roles = RoleScores()
        """Guesses of roles that are not public."""
        self.open_book = RoleScores()
        """Guesses of roles that the end of the game revealed to everybody."""
        self.roles_public = 0
        """Items of games whose end revealed the roles to everybody."""
        self.excluded: Counter[str] = Counter()

    def add(self, game: Game, item: Item, guess: Guess | None) -> None:
        """Counts one item with gold, and the guess about it if there is one."""
        self.totals.add(item, guess)
        self.roles_public += game.tells_roles
        if guess is not None:
            (self.open_book if game.tells_roles else self.roles).add(item, guess)

    def as_json(self) -> dict[str, Any]:
        return {
            "totals": {**self.totals.as_json(), "roles_public": self.roles_public},
            "roles": self.roles.as_json() if self.roles.right.den else None,
            "open_book": self.open_book.as_json() if self.open_book.right.den else None,
            "excluded": dict(sorted(self.excluded.items())),
        }


def _score_game(
    game: Game, dimension: Dimension, variant: Variant, guesses: Mapping[str, Guess], count: ScoreCount
) -> None:
    left = dict(guesses)
    for item in items(game, dimension, variant, with_gold=True):
        if (guess := left.pop(item.id, None)) is not None:
            count.add(game, item, guess)
    for item_id in left:
        count.excluded[why_excluded(game, item_id, variant)] += 1


def _scored_items(
    game: Game, dimension: Dimension, variant: Variant, guesses: Mapping[str, Guess]
) -> dict[str, ScoredItem]:
    gold = {item.id: item for item in items(game, dimension, variant, with_gold=True)}
    return {
        item_id: scored_item(game, item_id, guess, gold.get(item_id), variant)
        for item_id, guess in guesses.items()
    }


def why_excluded(game: Game, item_id: str, variant: Variant) -> Excluded | Literal["unchanged"]:
    """The reason why an item that was answered does not count."""
    counted: Counter[Excluded] = Counter()
    parts = parse_id(item_id)
    alone = replace(variant, reader=parts.reader if parts.reader is not None else variant.reader)
    for _ in items(game.only(parts.request_id), parts.dimension, alone, with_gold=True, excluded=counted):
        pass
    return next(iter(counted), "unchanged")


def scored_item(game: Game, item_id: str, guess: Guess, item: Item | None, variant: Variant) -> ScoredItem:
    """One answer beside the gold; ``item`` None: the item does not count."""
    parts = parse_id(item_id)
    turn = next(turn for turn in game.turns if turn.request_id == parts.request_id)
    gold = frozenset[str]() if item is None or item.gold is None else item.gold
    return ScoredItem(
        item_id=item_id,
        counted=item is not None,
        excluded=None if item is not None else why_excluded(game, item_id, variant),
        gold=sorted(gold),
        predicted=sorted(guess.intentions),
        matched=sorted(gold & guess.intentions),
        unmapped=list(guess.unmapped),
        role=None if guess.role is None else guess.role.value,
        true_role=game.role(turn.seat).value,
        confidence=guess.confidence,
    )
