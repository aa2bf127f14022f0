"""Two raters on the same items: evaluations of one dimension, or raters named as reports name them."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.base.errors import InvalidRequest, NotComparable
from app.base.off_loop import off_loop
from app.edge.auth import Caller
from app.evaluations.games import FinishedGames
from app.evaluations.items import Items
from app.evaluations.judge_scores import rulings_as_judgements
from app.evaluations.judge_work import STATEMENTS
from app.evaluations.judged import judgements_from
from app.evaluations.rater_work import RaterWorkReader
from app.evaluations.schemas import ComparedRater, ComparisonView, RaterKind
from app.evaluations.scoring import guesses_of, variant_of
from app.store.evaluations import EvaluationStore
from app.store.rows import EvaluationRow
from evaluators.ground.answers import Guess
from evaluators.ground.items import Dimension
from evaluators.ground.judgements import Judgement, by_game
from evaluators.ground.turns import Game
from evaluators.judges.rules import ruled
from evaluators.measures.comparing import PARTS_OF, TEST, Pairing, Part, answer_counts, judged_counts
from evaluators.measures.scoring import LEAST
from evaluators.report.builder import Answered
from evaluators.statistics.agreement import grouped, judge_agreement, ratings_of
from evaluators.statistics.resampling import Counts

__all__ = ["Comparisons"]

_AT_ONCE: Final = 20
"""Games whose judgements and answers are held at a time."""

_SAME: Final = ("options", "followed", "unmapped")
"""Settings by which gold or what counts as predicted differ: raters are compared under equal ones. What
they were shown, ``history`` and ``context``, may differ: that is worth comparing."""

_TOLD: Final = 10
"""Raters named in a refusal."""


class Comparisons:
    """Compares raters, game by game."""

    def __init__(self, games: FinishedGames, items: Items, store: EvaluationStore) -> None:
        self._games = games
        self._items = items
        self._store = store

    # --- evaluations ------------------------------------------------------------------------

    async def evaluations(
        self, first: EvaluationRow, second: EvaluationRow, caller: Caller
    ) -> ComparisonView:
        """Two evaluations of one dimension. Raises NotComparable where they have nothing in common, differ
        in dimension or in how their items count, or where one is still being judged.
        """
        rows = (first, second)
        ids = [row.evaluation_id for row in rows]
        if ids[0] == ids[1]:
            raise NotComparable(f"{ids[0]} is named twice: name another evaluation")
        if first.dimension != second.dimension:
            told = " and ".join(f"{row.evaluation_id} is of {row.dimension}" for row in rows)
            raise NotComparable(f"{told}: both must be of one dimension")
        if first.dimension == STATEMENTS:
            raise NotComparable(
                f"what is said of {first.dimension} is compared with the rules, in the evaluation itself"
            )
        for row in rows:
            if row.status == "judging":
                raise NotComparable(f"{row.evaluation_id} is still being judged: ask again when it is done")
        dimension = first.dimension
        match = _Match(dimension, _rater_of(first), _rater_of(second))
        if dimension in ("guessing", "summarisation"):
            await self._answers(match, first, second)
        else:
            await self._judged(match, first, second)
        return await off_loop(match.view, ids, caller)

    async def _answers(self, match: "_Match", first: EvaluationRow, second: EvaluationRow) -> None:
        variants = [row.spec["variant"] for row in (first, second)]
        for name in _SAME:
            if variants[0][name] != variants[1][name]:
                told = " and ".join(str(one[name]).lower() for one in variants)
                raise NotComparable(f"{name} is {told}: grade the answers of one of them under the other's")
        guesses = [
            _by_game(await off_loop(guesses_of, await self._store.answers_of(row.evaluation_id)))
            for row in (first, second)
        ]
        for game_id in sorted(guesses[0].keys() | guesses[1].keys()):
            mine, yours = (one.get(game_id, {}) for one in guesses)
            if not mine.keys() & yours.keys():
                match.hand_in(mine, yours)
                continue
            game = await self._games.by_id(game_id)
            sides = []
            for variant, given in zip(variants, (mine, yours), strict=True):
                filtered = await self._items.variant(
                    variant_of(variant), [game_id], followed=bool(variant["followed"])
                )
                sides.append(
                    await asyncio.to_thread(
                        answer_counts, game, match.dimension, given, filtered, variant["unmapped"]
                    )
                )
            match.hand_in(mine, yours)
            match.count(match.part, game_id, *sides)

    async def _judged(self, match: "_Match", first: EvaluationRow, second: EvaluationRow) -> None:
        games = sorted(set(first.spec["games"]) | set(second.spec["games"]))
        for start in range(0, len(games), _AT_ONCE):
            some = games[start : start + _AT_ONCE]
            said = [await self._said_in(row, some) for row in (first, second)]
            for game_id in some:
                mine, yours = (one.get(game_id, []) for one in said)
                if mine or yours:
                    game = await self._games.by_id(game_id)
                    await asyncio.to_thread(match.count_judged, game, mine, yours)

    async def _said_in(self, row: EvaluationRow, games: Sequence[str]) -> Mapping[str, list[Judgement]]:
        if row.spec["judge"]["kind"] == "model":
            rows = await self._store.judged_by(row.evaluation_id, games)
            return by_game(judgements_from(rows))
        mine = sorted(set(games) & set(row.spec["games"]))
        return {
            game_id: rulings_as_judgements(list(ruled(await self._games.by_id(game_id)))) for game_id in mine
        }

    # --- raters by name ---------------------------------------------------------------------

    async def raters(
        self,
        games: Sequence[str],
        dimension: Dimension,
        first: str,
        second: str,
        caller: Caller,
        *,
        followed: bool,
    ) -> ComparisonView:
        """Two raters on everything that stands about these games. Raises InvalidRequest for a name that
        no rater of the caller's has, NotComparable where the two have nothing in common.
        """
        if first == second:
            raise NotComparable(f"{first} is named twice: name another rater")
        whose = None if caller.sees_all else caller.name
        about = await RaterWorkReader.games(self._store, games, whose)
        names = (first, second)
        found: set[str] = set()
        kinds: dict[str, RaterKind] = {}
        kept: list[Judgement] = []
        match = _Match(dimension, ComparedRater(rater=first), ComparedRater(rater=second))
        answered = dimension in ("guessing", "summarisation")
        for start in range(0, len(games), _AT_ONCE):
            some = games[start : start + _AT_ONCE]
            said = await about.read(some, (dimension,) if answered else ())  # type: ignore[arg-type]
            for game_id in some:
                if answered:
                    given = {one.name: one for one in said.answers.get(game_id, ())}
                    found |= given.keys()
                    sides = [given.get(name) for name in names]
                    if any(sides):
                        game = await self._games.by_id(game_id)
                        await self._count_answers(match, game, sides, followed=followed)
                    continue
                held = said.judgements.get(game_id, ())
                parts = [one for one in held if _says(one, dimension)]
                found |= {one.rater for one in parts}
                kinds |= {one.rater: said.kinds[one.rater] for one in parts}
                sides_of = [[one for one in parts if one.rater == name] for name in names]
                if any(sides_of):
                    game = await self._games.by_id(game_id)
                    await asyncio.to_thread(match.count_judged, game, *sides_of)
                    kept += [one for one in parts if one.rater in names or one.rater not in said.judges]
        for name, place in zip(names, ("/first", "/second"), strict=True):
            if name not in found:
                raise InvalidRequest(_unknown(name, found), place, "rater")
        if not answered:
            match.first, match.second = (ComparedRater(rater=name, kind=kinds[name]) for name in names)
            match.lacking = _lacking(kept, names, kinds, match.parts)
        return await off_loop(match.view, names, caller)

    async def _count_answers(
        self, match: "_Match", game: Game, sides: Sequence[Answered | None], *, followed: bool
    ) -> None:
        given = [{} if one is None else {guess.item_id: guess for guess in one.guesses} for one in sides]
        match.hand_in(given[0], given[1])
        if sides[0] is None or sides[1] is None:
            return
        for name in ("options", "unmapped"):
            told = [str(getattr(one.variant, name, None) or one.unmapped) for one in (sides[0], sides[1])]
            if told[0] != told[1]:
                raise NotComparable(f"{name} is {told[0]} and {told[1]}: grade one under the other's")
        counts: list[dict[str, Counts]] = []
        for one, guesses in zip((sides[0], sides[1]), given, strict=True):
            variant = await self._items.variant(one.variant, [game.id], followed=followed)
            counts.append(
                await asyncio.to_thread(answer_counts, game, match.dimension, guesses, variant, one.unmapped)
            )
        match.count(match.part, game.id, *counts)


@dataclass(slots=True)
class _Match:
    """Two raters being compared."""

    dimension: Dimension
    first: ComparedRater
    second: ComparedRater
    handed_in: list[int] = field(default_factory=lambda: [0, 0, 0])
    """What both, the first alone and the second alone have said, whether or not it counts."""
    pairings: dict[Part, Pairing] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    """Why a judge may not stand beside people; empty: nothing is lacking."""

    @property
    def parts(self) -> tuple[Part, ...]:
        return PARTS_OF[self.dimension]

    @property
    def part(self) -> Part:
        return self.parts[0]

    def hand_in(self, first: Collection[str], second: Collection[str]) -> None:
        mine, yours = set(first), set(second)
        for place, n in enumerate((len(mine & yours), len(mine - yours), len(yours - mine))):
            self.handed_in[place] += n

    def count(
        self, part: Part, game_id: str, first: Mapping[str, Counts], second: Mapping[str, Counts]
    ) -> None:
        self.pairings.setdefault(part, Pairing(part)).add(game_id, first, second)

    def count_judged(self, game: Game, first: Sequence[Judgement], second: Sequence[Judgement]) -> None:
        units: list[set[str]] = [set(), set()]
        for part in self.parts:
            sides = []
            for place, said in enumerate((first, second)):
                found = judged_counts(game, said, part)
                sides.append(next(iter(found.values()), {}))
                units[place] |= sides[place].keys()
            self.count(part, game.id, *sides)
        self.hand_in(*units)

    def view(self, names: Sequence[str], caller: Caller) -> ComparisonView:
        """What the caller is told. Raises NotComparable where the two have nothing in common."""
        both, first, second = self.handed_in
        what = "item" if self.dimension in ("guessing", "summarisation") else "intention"
        if not both:
            did = "answered" if what == "item" else "judged"
            raise NotComparable(
                f"{names[0]} and {names[1]} {did} no {what} in common: "
                f"{first} by the first alone, {second} by the second alone"
            )
        held = {part: self.pairings.get(part, Pairing(part)) for part in self.parts}
        enough = caller.sees_all or all(
            pairing.items >= LEAST for pairing in held.values() if pairing.units or not self._judged
        )
        told = enough and not self.lacking
        counted = max(pairing.items for pairing in held.values())
        totals: Any = {part: pairing.as_json() for part, pairing in held.items()}
        return ComparisonView(
            dimension=self.dimension,
            first=self.first,
            second=self.second,
            unit=what,  # type: ignore[arg-type]
            shared=both,
            first_only=first,
            second_only=second,
            items=counted if enough else None,
            games=max(len(pairing.games) for pairing in held.values()) if enough else None,
            totals=totals if told else None,
            test=TEST,
            lacking=self.lacking,
        )

    @property
    def _judged(self) -> bool:
        return self.dimension in ("selection", "following")


def _rater_of(row: EvaluationRow) -> ComparedRater:
    return ComparedRater(
        rater=row.rater,
        kind=row.kind,
        evaluation_id=row.evaluation_id,
        grade=row.grade,
        variant=row.spec.get("variant"),
        judge=row.spec.get("judge"),
    )


def _by_game(guesses: Mapping[str, Guess]) -> dict[str, dict[str, Guess]]:
    found: dict[str, dict[str, Guess]] = {}
    for item_id, guess in guesses.items():
        found.setdefault(item_id.partition("/")[0], {})[item_id] = guess
    return found


def _says(one: Judgement, dimension: Dimension) -> bool:
    if dimension == "selection":
        return one.reasonable is not None
    return one.think is not None or one.speak is not None


def _unknown(name: str, found: set[str]) -> str:
    if not found:
        return "nobody has said anything about these games that this caller may see"
    known = sorted(found)
    more = f" and {len(known) - _TOLD} more" if len(known) > _TOLD else ""
    return f"no such rater of these games; there are {', '.join(known[:_TOLD])}{more}"


def _lacking(
    said: Sequence[Judgement], names: Sequence[str], kinds: Mapping[str, RaterKind], parts: Sequence[Part]
) -> list[str]:
    """Why a judge among the two may not stand beside the person: as where scores are shown."""
    judges = [name for name in names if kinds[name] != "human"]
    if len(judges) != 1:
        return []
    judge = judges[0]
    found = []
    for part in parts:
        rated = ratings_of(said, part)  # type: ignore[arg-type]
        rated = rated if part == "reasonable" else grouped(rated)
        people = {rater: items for rater, items in rated.items() if kinds.get(rater) == "human"}
        measured = judge_agreement(rated.get(judge, {}), people, name=judge)
        found += [f"{part}: {reason}" for reason in measured.lacking]
    return found
