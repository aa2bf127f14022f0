"""Compares two raters on the same items: two evaluations of one dimension, or two raters by their names in
reports.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from app.base.errors import InvalidRequest, NotComparable, NotFound
from app.base.off_loop import off_loop
from app.evaluations.items import FinishedGames, Items, RatersOn
from app.evaluations.judge_scores import rulings_as_judgements
from app.evaluations.judge_work import STATEMENTS
from app.evaluations.rater_work import RaterWorkReader, judgements_from
from app.evaluations.schemas import ComparedRater, ComparisonView
from app.store.evaluations import DamagedRow, EvaluationStore
from app.store.rows import EvaluationRow, RaterKind
from engine.errors import CorruptLog
from evaluators.ground.answers import guesses_by_game, guesses_of
from evaluators.ground.items import ANSWERED, Dimension
from evaluators.ground.judgements import Judgement, by_game
from evaluators.ground.turns import Game
from evaluators.judges.rules import ruled
from evaluators.measures.comparing import PARTS_OF, TEST, Pairing, Part, answer_counts, judged_counts
from evaluators.report.builder import Answered
from evaluators.statistics.agreement import grouped, judge_agreement, ratings_of
from evaluators.statistics.intervals import Counts

__all__ = ["Comparisons"]

log = structlog.get_logger()

_AT_ONCE: Final = 20
"""Games whose judgements and answers are in memory at a time."""

_SAME: Final = ("options", "followed", "unmapped")
"""Settings that change the gold or what counts as predicted; they must be equal for both raters. ``history``
and ``context``, which say what raters were shown, may differ: their effect is worth comparing.
"""

_NAMED: Final = 10
"""The most raters, or damaged rows, that an error message names."""


class Comparisons:
    """Compares raters, game by game."""

    def __init__(self, games: FinishedGames, items: Items, store: EvaluationStore) -> None:
        self._games = games
        self._items = items
        self._store = store

    # --- evaluations ------------------------------------------------------------------------

    async def evaluations(
        self, first: EvaluationRow, second: EvaluationRow, exclude_above: float, raters: RatersOn
    ) -> ComparisonView:
        """Compares two evaluations of one dimension. ``raters``: whose judgements say what was followed.
        Raises NotComparable if they are the same evaluation, are about statements, have nothing in common,
        differ in dimension or in how their items count, or if one of them is still being judged.
        """
        rows = (first, second)
        ids = [row.evaluation_id for row in rows]
        if ids[0] == ids[1]:
            raise NotComparable(f"{ids[0]} is named twice: name another evaluation")
        if first.dimension != second.dimension:
            dimensions = " and ".join(f"{row.evaluation_id} is of {row.dimension}" for row in rows)
            raise NotComparable(f"{dimensions}: both must be of one dimension")
        if first.dimension == STATEMENTS:
            raise NotComparable(
                f"judges of {first.dimension} are compared with the rules, in the evaluation itself"
            )
        for row in rows:
            if row.status == "judging":
                raise NotComparable(f"{row.evaluation_id} is still being judged: ask again when it is done")
        dimension = first.dimension
        match = _Match(dimension, _rater_of(first), _rater_of(second), exclude_above)
        if dimension in ANSWERED:
            await self._answers(match, first, second, raters)
        else:
            await self._judged(match, first, second)
        return await off_loop(match.view, ids)

    async def _answers(
        self, match: "_Match", first: EvaluationRow, second: EvaluationRow, raters: RatersOn
    ) -> None:
        variants = [row.spec["variant"] for row in (first, second)]
        for name in _SAME:
            if variants[0][name] != variants[1][name]:
                values = " and ".join(str(variant[name]).lower() for variant in variants)
                raise NotComparable(
                    f"{name} is {values}: grade one rater's answers under the other's variant"
                )
        guesses = []
        for row in (first, second):
            answers = await self._store.answers_of(row.evaluation_id)
            match.leave_out(answers.damaged)
            known = (row.result or {}).get("answers", 0)
            match.deleted += max(known - len(answers) - len(answers.damaged), 0)
            guesses.append(guesses_by_game(await off_loop(guesses_of, answers)))
        for game_id in sorted(guesses[0].keys() | guesses[1].keys()):
            with match.left_out_if_damaged(game_id):
                if await self._leaves_out(match, game_id):
                    continue
                of_first, of_second = (by_game_id.get(game_id, {}) for by_game_id in guesses)
                match.hand_in(of_first, of_second)
                if not of_first.keys() & of_second.keys():
                    continue
                game = await self._games.by_id(game_id)
                sides = []
                for variant, given in zip(variants, (of_first, of_second), strict=True):
                    filtered = await self._items.stored_variant(variant, game_id, raters)
                    unmapped = variant["unmapped"]
                    sides.append(
                        await off_loop(answer_counts, game, match.dimension, given, filtered, unmapped)
                    )
                match.count(match.part, game_id, *sides)

    async def _judged(self, match: "_Match", first: EvaluationRow, second: EvaluationRow) -> None:
        games = sorted(set(first.spec["games"]) | set(second.spec["games"]))
        for start in range(0, len(games), _AT_ONCE):
            some = games[start : start + _AT_ONCE]
            judgements = [await self._judgements_of(match, row, some) for row in (first, second)]
            for game_id in some:
                sides = [by_game_id.get(game_id, []) for by_game_id in judgements]
                with match.left_out_if_damaged(game_id):
                    if any(sides) and not await self._leaves_out(match, game_id):
                        game = await self._games.by_id(game_id)
                        await off_loop(match.count_judged, game, *sides)

    async def _leaves_out(self, match: "_Match", game_id: str) -> bool:
        """Whether the game is excluded, which is counted: what models fail at is no finding about raters."""
        excluded = await self._games.is_excluded(game_id, match.exclude_above)
        match.excluded += excluded
        return excluded

    async def _judgements_of(
        self, match: "_Match", row: EvaluationRow, games: Sequence[str]
    ) -> Mapping[str, list[Judgement]]:
        if row.spec["judge"]["kind"] == "model":
            rows = await self._store.judged_by(row.evaluation_id, games)
            match.leave_out(rows.damaged)
            return by_game(judgements_from(rows))
        judged = sorted(set(games) & set(row.spec["games"]))
        rulings: dict[str, list[Judgement]] = {}
        for game_id in judged:
            with match.left_out_if_damaged(game_id), suppress(NotFound):  # it was deleted since
                rulings[game_id] = rulings_as_judgements(list(ruled(await self._games.by_id(game_id))))
        return rulings

    # --- raters by name ---------------------------------------------------------------------

    async def raters(
        self,
        games: Sequence[str],
        dimension: Dimension,
        first: str,
        second: str,
        *,
        whose: RatersOn,
        followed: bool,
        exclude_above: float,
    ) -> ComparisonView:
        """Compares two raters on all their valid judgements or answers about these games, as far as they
        were handed in by ``whose``.

        Raises InvalidRequest for a name that no rater visible to the caller has; NotComparable if both names
        are the same, if the two raters have nothing in common, or if their answers are to different
        ``options`` or count unmapped texts differently.
        """
        if first == second:
            raise NotComparable(f"{first} is named twice: name another rater")
        reader = await RaterWorkReader.about(self._store, games, await whose(games))
        names = (first, second)
        known: set[str] = set()
        kinds: dict[str, RaterKind] = {}
        compared: list[Judgement] = []
        match = _Match(dimension, ComparedRater(rater=first), ComparedRater(rater=second), exclude_above)
        answered = dimension in ANSWERED
        for start in range(0, len(games), _AT_ONCE):
            some = games[start : start + _AT_ONCE]
            work = await reader.read(some, (dimension,) if answered else ())  # type: ignore[arg-type]
            table = "answers" if answered else "judgements"
            match.leave_out([row for row in work.damaged if row.table == table])
            for game_id in some:
                if answered:
                    answers = {answer.name: answer for answer in work.answers.get(game_id, ())}
                    known |= answers.keys()
                    sides = [answers.get(name) for name in names]
                    with match.left_out_if_damaged(game_id):
                        if any(sides) and not await self._leaves_out(match, game_id):
                            game = await self._games.by_id(game_id)
                            await self._count_answers(match, game, sides, whose, followed=followed)
                    continue
                judged = [
                    judgement
                    for judgement in work.judgements.get(game_id, ())
                    if _is_about(judgement, dimension)
                ]
                known |= {judgement.rater for judgement in judged}
                kinds |= {judgement.rater: work.kinds[judgement.rater] for judgement in judged}
                sides_of = [[judgement for judgement in judged if judgement.rater == name] for name in names]
                with match.left_out_if_damaged(game_id):
                    if any(sides_of) and not await self._leaves_out(match, game_id):
                        game = await self._games.by_id(game_id)
                        await off_loop(match.count_judged, game, *sides_of)
                        compared += [
                            judgement
                            for judgement in judged
                            if judgement.rater in names or judgement.rater not in work.judges
                        ]
        for name, pointer in zip(names, ("/first", "/second"), strict=True):
            if name not in known:
                raise InvalidRequest(_unknown(known), pointer, "rater")
        if not answered:
            match.first, match.second = (ComparedRater(rater=name, kind=kinds[name]) for name in names)
            match.lacking = _lacking(compared, names, kinds, match.parts)
        return await off_loop(match.view, names)

    async def _count_answers(
        self,
        match: "_Match",
        game: Game,
        sides: Sequence[Answered | None],
        raters: RatersOn,
        *,
        followed: bool,
    ) -> None:
        given = [{} if side is None else {guess.item_id: guess for guess in side.guesses} for side in sides]
        match.hand_in(given[0], given[1])
        if sides[0] is None or sides[1] is None:
            return
        for name in ("options", "unmapped"):
            values = [
                str(getattr(side.variant, name, None) or side.unmapped) for side in (sides[0], sides[1])
            ]
            if values[0] != values[1]:
                raise NotComparable(
                    f"{name} is {values[0]} and {values[1]}: grade one rater's answers under the "
                    "other's variant"
                )
        counts: list[dict[str, Counts]] = []
        for side, guesses in zip((sides[0], sides[1]), given, strict=True):
            variant = await self._items.variant(side.variant, [game.id], followed=followed, raters=raters)
            counts.append(
                await off_loop(answer_counts, game, match.dimension, guesses, variant, side.unmapped)
            )
        match.count(match.part, game.id, *counts)


@dataclass(slots=True)
class _Match:
    """Two raters being compared."""

    dimension: Dimension
    first: ComparedRater
    second: ComparedRater
    exclude_above: float
    """Games whose models defaulted a larger share of their decisions are left out."""
    excluded: int = 0
    """Games of these raters that are left out, those marked as invalid too."""
    deleted: int = 0
    """Answers that went with their games, which were deleted."""
    damaged: dict[str, None] = field(default_factory=dict)
    """The names of rows and the ids of games that cannot be read, and are left out; in order, each once."""
    handed_in: list[int] = field(default_factory=lambda: [0, 0, 0])
    """The numbers of units that were answered or judged: by both raters, only by the first, only by the
    second. Units that do not count are included.
    """
    pairings: dict[Part, Pairing] = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)
    """The reasons why a judge may not be compared with people; empty if it may be."""

    @property
    def parts(self) -> tuple[Part, ...]:
        return PARTS_OF[self.dimension]

    @property
    def part(self) -> Part:
        return self.parts[0]

    def leave_out(self, rows: Sequence[DamagedRow]) -> None:
        self.damaged |= dict.fromkeys(row.name for row in rows)

    @contextmanager
    def left_out_if_damaged(self, game_id: str) -> Iterator[None]:
        """Names the game where it cannot be read in the block, so that the others are compared."""
        try:
            yield
        except (CorruptLog, NotFound) as fault:  # answers go with their game, unless its row lost its id
            log.error("a game is left out of a comparison", game=game_id, cause=str(fault))
            self.damaged[game_id] = None

    def hand_in(self, first: Collection[str], second: Collection[str]) -> None:
        both = set(first) & set(second)
        for place, n in enumerate((len(both), len(first) - len(both), len(second) - len(both))):
            self.handed_in[place] += n

    def count(
        self, part: Part, game_id: str, first: Mapping[str, Counts], second: Mapping[str, Counts]
    ) -> None:
        self.pairings.setdefault(part, Pairing(part)).add(game_id, first, second)

    def count_judged(self, game: Game, first: Sequence[Judgement], second: Sequence[Judgement]) -> None:
        units: list[set[str]] = [set(), set()]
        for part in self.parts:
            sides = []
            for place, judgements in enumerate((first, second)):
                by_rater = judged_counts(game, judgements, part)
                sides.append(next(iter(by_rater.values()), {}))
                units[place] |= sides[place].keys()
            self.count(part, game.id, *sides)
        self.hand_in(*units)

    def view(self, names: Sequence[str]) -> ComparisonView:
        """The comparison. Raises NotComparable if the two have nothing in common."""
        both, first, second = self.handed_in
        what = "item" if self.dimension in ANSWERED else "intention"
        if not both:
            did = "answered" if what == "item" else "judged"
            reasons = [
                f"{names[0]} and {names[1]} {did} no {what} in common",
                f"{first} by the first alone, {second} by the second alone",
            ]
            if self.excluded:
                reasons.append(f"{self.excluded} of their games are excluded")
            if self.deleted:
                reasons.append(f"{self.deleted} of their answers went with games that were deleted")
            if self.damaged:
                reasons.append(f"left out, since damaged: {', '.join(list(self.damaged)[:_NAMED])}")
            raise NotComparable(": ".join((reasons[0], "; ".join(reasons[1:]))))
        pairings = {part: self.pairings.get(part, Pairing(part)) for part in self.parts}
        items = max(pairing.items for pairing in pairings.values())
        totals: Any = {part: pairing.as_json() for part, pairing in pairings.items()}
        return ComparisonView(
            dimension=self.dimension,
            first=self.first,
            second=self.second,
            unit=what,  # type: ignore[arg-type]
            shared=both,
            first_only=first,
            second_only=second,
            items=items,
            games=max(len(pairing.games) for pairing in pairings.values()),
            totals=None if self.lacking else totals,
            excluded_games=self.excluded,
            damaged=list(self.damaged),
            test=TEST,
            lacking=self.lacking,
        )


def _rater_of(row: EvaluationRow) -> ComparedRater:
    return ComparedRater(
        rater=row.rater,
        kind=row.kind,
        evaluation_id=row.evaluation_id,
        grade=row.grade,
        variant=row.spec.get("variant"),
        judge=row.spec.get("judge"),
    )


def _is_about(judgement: Judgement, dimension: Dimension) -> bool:
    if dimension == "selection":
        return judgement.reasonable is not None
    return judgement.think is not None or judgement.speak is not None


def _unknown(known: set[str]) -> str:
    if not known:
        return "nobody has said anything about these games that this caller may see"
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"no such rater of these games; there are {', '.join(sorted(known)[:_NAMED])}{more}"


def _lacking(
    judgements: Sequence[Judgement],
    names: Sequence[str],
    kinds: Mapping[str, RaterKind],
    parts: Sequence[Part],
) -> list[str]:
    """The reasons why a judge may not be compared with a person, which are those for which its scores are not
    shown. Empty if it may be compared, or unless exactly one of the two raters is a judge.
    """
    judges = [name for name in names if kinds[name] != "human"]
    if len(judges) != 1:
        return []
    judge = judges[0]
    reasons = []
    for part in parts:
        rated = ratings_of(judgements, part)  # type: ignore[arg-type]
        rated = rated if part == "reasonable" else grouped(rated)
        people = {rater: items for rater, items in rated.items() if kinds.get(rater) == "human"}
        measured = judge_agreement(rated.get(judge, {}), people, name=judge)
        reasons += [f"{part}: {reason}" for reason in measured.lacking]
    return reasons
