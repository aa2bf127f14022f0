"""Answers handed in, scored against the gold that the logs hold."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.base.errors import AlreadySeen, InvalidRequest, NotFound
from app.base.off_loop import off_loop
from app.evaluations.games import FinishedGames
from app.evaluations.items import DAMAGED, Items
from app.evaluations.schemas import AnswerSpec, ScoredItem, VariantSpec
from app.store.evaluations import EvaluationStore
from app.store.rows import AnswerRow
from engine.errors import CorruptLog
from engine.terms import Role
from evaluators.errors import UnknownItem
from evaluators.ground.answers import Guess, by_item, majority, read_answer
from evaluators.ground.items import Dimension, Excluded, Item, Variant, items, parse_id
from evaluators.ground.turns import Game
from evaluators.measures.scoring import LEAST, RoleScores, Totals, limited
from evaluators.report.builder import Answered

__all__ = ["Scored", "Scorer", "answered_by_game", "guesses_of", "variant_of"]


def variant_of(spec: VariantSpec | Mapping[str, Any]) -> Variant:
    """The variant of the items that are scored: whoever may be a reader is one."""
    given = spec.model_dump() if isinstance(spec, VariantSpec) else spec
    return Variant(reader="all", options=given["options"], history=given["history"], context=given["context"])


@dataclass(frozen=True, slots=True)
class Scored:
    """How answers came out."""

    items: int
    """Items the answers are about."""
    full: dict[str, Any]
    """For callers who may see gold: ``totals``, ``roles``, ``excluded``."""
    limited: dict[str, Any]
    """For everybody else: the same where enough items stand behind it, else None."""

    def as_json(self) -> dict[str, Any]:
        return {"items": self.items, "full": self.full, "limited": self.limited}


class Scorer:
    """Reads answers and scores them."""

    def __init__(self, games: FinishedGames, items: Items, store: EvaluationStore) -> None:
        self._games = games
        self._items = items
        self._store = store

    async def check(
        self,
        dimension: Dimension,
        answers: Sequence[AnswerSpec],
        variant: VariantSpec,
        *,
        caller: str,
        sees_all: bool,
    ) -> None:
        """Raises for an answer to something that is no item, and to one whose gold the caller was shown.

        Whether an item counts is part of the gold, so nothing here asks for that.
        """
        turns: dict[tuple[str, str], int] = {}
        given: set[tuple[str, int]] = set()
        by_game: dict[str, list[tuple[int, str]]] = {}
        for place, answer in enumerate(answers):
            pointer = f"/answers/{place}"
            try:
                parts = parse_id(answer.item_id)
            except UnknownItem as fault:
                raise InvalidRequest(_no_echo(fault), f"{pointer}/item_id", "item_id") from None
            if parts.dimension != dimension:
                raise InvalidRequest(
                    f"this item is one of {parts.dimension}", f"{pointer}/item_id", "dimension"
                )
            if answer.role is not None and dimension != "guessing":
                raise InvalidRequest("only guesses name a role", f"{pointer}/role", "role")
            if (answer.item_id, answer.sample) in given:
                raise InvalidRequest("this sample of the item was given above", pointer, "twice")
            given.add((answer.item_id, answer.sample))
            turns.setdefault((parts.game_id, parts.request_id), place)
            by_game.setdefault(parts.game_id, []).append((place, answer.item_id))
        for game_id, asked in by_game.items():
            try:
                game = await self._games.by_id(game_id, sees_all=sees_all)
            except NotFound:
                raise InvalidRequest(
                    "no such game for this caller", f"/answers/{asked[0][0]}/item_id", "unknown_item"
                ) from None
            known = await off_loop(_ids, game, dimension, variant_of(variant))
            for place, item_id in asked:
                if item_id not in known:
                    raise InvalidRequest(
                        "this game has no such item; GET /evaluations/items lists them",
                        f"/answers/{place}/item_id",
                        "unknown_item",
                    )
        if not sees_all:
            played = await self._games.first_played(turns)
            seen = await self._store.seen_by(caller, {*turns, *played.values()})
            places = [place for turn, place in turns.items() if turn in seen or played[turn] in seen]
            if places:
                first = min(places)
                raise AlreadySeen(
                    "this credential was shown what was chosen there, by selection or following items",
                    f"/answers/{first}/item_id",
                )

    async def score(
        self, dimension: Dimension, answers: Sequence[AnswerRow], variant: Mapping[str, Any]
    ) -> Scored:
        """The scores of stored answers."""
        # Each text is compared with every wording of every intention.
        guesses = await off_loop(guesses_of, answers)
        games: dict[str, list[str]] = {}
        for item_id in guesses:
            games.setdefault(parse_id(item_id).game_id, []).append(item_id)
        totals = Totals(variant["unmapped"])
        roles = RoleScores()
        excluded: Counter[str] = Counter()
        for game_id, asked in sorted(games.items()):
            try:
                game = await self._games.by_id(game_id)
            except CorruptLog:
                excluded[DAMAGED] += len(asked)
                continue
            filtered = await self._items.variant(
                variant_of(variant), [game_id], followed=bool(variant["followed"])
            )
            await asyncio.to_thread(
                _score_game,
                game,
                dimension,
                filtered,
                {id_: guesses[id_] for id_ in asked},
                totals,
                roles,
                excluded,
            )
        counted = totals.scores.items
        full, few = await asyncio.to_thread(_told, totals, roles)
        if len(guesses) < LEAST or counted < LEAST:
            few = {"totals": None, "roles": None}
        return Scored(len(guesses), {**full, "excluded": dict(sorted(excluded.items()))}, few)

    async def per_item(
        self, dimension: Dimension, answers: Sequence[AnswerRow], variant: Mapping[str, Any]
    ) -> list[ScoredItem]:
        """Every item of an evaluation beside its gold."""
        guesses = await off_loop(guesses_of, answers)
        games: dict[str, list[str]] = {}
        for item_id in guesses:
            games.setdefault(parse_id(item_id).game_id, []).append(item_id)
        shown: dict[str, ScoredItem] = {}
        for game_id, asked in games.items():
            game = await self._games.by_id(game_id)
            filtered = await self._items.variant(
                variant_of(variant), [game_id], followed=bool(variant["followed"])
            )
            gold = {item.id: item for item in items(game, dimension, filtered, with_gold=True)}
            for item_id in asked:
                shown[item_id] = _shown(game, item_id, guesses[item_id], gold.get(item_id), filtered)
        return [shown[item_id] for item_id in guesses]


def _ids(game: Game, dimension: Dimension, variant: Variant) -> frozenset[str]:
    return frozenset(item.id for item in items(game, dimension, variant))


def _no_echo(fault: UnknownItem) -> str:
    # The fault's own words repeat what was sent.
    return str(fault).partition(", got ")[0]


def guesses_of(answers: Sequence[AnswerRow]) -> dict[str, Guess]:
    """One guess an item, samples joined by majority; in the order of item ids."""
    read = [
        read_answer(
            row.item_id,
            row.named,
            role=None if row.role is None else Role(row.role),
            confidence=row.confidence,
        )
        for row in sorted(answers, key=lambda row: (row.item_id, row.sample))
    ]
    return {
        item_id: samples[0] if len(samples) == 1 else majority(samples)
        for item_id, samples in by_item(read).items()
    }


def answered_by_game(
    rater: str, dimension: Any, variant: Mapping[str, Any], rows: Iterable[AnswerRow]
) -> dict[str, Answered]:
    """One rater's answers to items made in one way, by game."""
    of_game: dict[str, list[AnswerRow]] = {}
    for row in rows:
        of_game.setdefault(row.game_id, []).append(row)
    return {
        game_id: Answered(
            dimension, rater, list(guesses_of(given).values()), variant_of(variant), variant["unmapped"]
        )
        for game_id, given in of_game.items()
    }


def _score_game(
    game: Game,
    dimension: Dimension,
    variant: Variant,
    guesses: Mapping[str, Guess],
    totals: Totals,
    roles: RoleScores,
    excluded: Counter[str],
) -> None:
    left = dict(guesses)
    for item in items(game, dimension, variant, with_gold=True):
        guess = left.pop(item.id, None)
        if guess is None:
            continue  # not among what was asked
        totals.add(item, guess)
        roles.add(item, guess)
    for item_id in left:
        excluded[_why(game, item_id, variant)] += 1


def _why(game: Game, item_id: str, variant: Variant) -> Excluded | Literal["unchanged"]:
    """Why an item that was asked does not count."""
    counted: Counter[Excluded] = Counter()
    parts = parse_id(item_id)
    alone = replace(variant, reader=parts.reader if parts.reader is not None else variant.reader)
    for _ in items(game.only(parts.request_id), parts.dimension, alone, with_gold=True, excluded=counted):
        pass
    return next(iter(counted), "unchanged")


def _told(totals: Totals, roles: RoleScores) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is told to who may see gold, and to who may not."""
    every = roles.as_json() if roles.right.den else None
    few = None if roles.right.den < LEAST else {"accuracy": roles.right.as_json(), "brier": roles.brier}
    told = totals.as_json()
    return {"totals": told, "roles": every}, {"totals": limited(told), "roles": few}


def _shown(game: Game, item_id: str, guess: Guess, item: Item | None, variant: Variant) -> ScoredItem:
    parts = parse_id(item_id)
    turn = next(turn for turn in game.turns if turn.request_id == parts.request_id)
    gold = frozenset[str]() if item is None or item.gold is None else item.gold
    return ScoredItem(
        item_id=item_id,
        counted=item is not None,
        excluded=None if item is not None else _why(game, item_id, variant),
        gold=sorted(gold),
        predicted=sorted(guess.intentions),
        matched=sorted(gold & guess.intentions),
        unmapped=list(guess.unmapped),
        role=None if guess.role is None else guess.role.value,
        true_role=game.role(turn.seat).value,
        confidence=guess.confidence,
    )
