"""Turns stored judgements and answers of raters into the forms that evaluators accept."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError

from app.base.off_loop import off_loop
from app.evaluations.schemas import VariantSpec
from app.store.evaluations import DamagedRow, EvaluationStore, Whose
from app.store.rows import AnswerRow, JudgementRow, RaterKind, StatementsRow, name_of
from engine.errors import CorruptLog
from engine.thoughts import SelectionStage
from evaluators.ground.answers import guesses_of
from evaluators.ground.items import ANSWERED, AnsweredDimension, Variant
from evaluators.ground.judgements import Judgement, by_game
from evaluators.judges.statement_scores import Against, SpeechJudgement
from evaluators.judges.statements import Statement
from evaluators.measures.hallucination import SpeechKey
from evaluators.report.builder import Answered

__all__ = [
    "RaterWork",
    "RaterWorkReader",
    "answered_by_game",
    "judgements_from",
    "judges_in",
    "spoken_from",
]

R = TypeVar("R", JudgementRow, StatementsRow, AnswerRow)

# --- judgements -------------------------------------------------------------------------------------


def judgements_from(
    rows: Iterable[JudgementRow], shared_names: Collection[str] | None = None
) -> list[Judgement]:
    """One judgement for each rater, stage and intention. It joins the judgement of the selection and that of
    the following.

    Raters of the same name under different credentials are different raters. ``shared_names``: the names that
    several credentials use; None: the names that several credentials use in these rows.
    """
    joined: dict[tuple[str, str, SelectionStage, str, str], dict[str, Any]] = {}
    for row, name in _named(rows, shared_names):
        key = (row.game_id, row.request_id, row.stage, row.intention, name)
        scores = joined.setdefault(key, {"reasonable": None, "think": None, "speak": None})
        for field in scores:
            if getattr(row, field) is not None:
                scores[field] = getattr(row, field)
    return [Judgement(*key[:4], **scores, rater=key[4]) for key, scores in joined.items()]


def _kinds_in(
    rows: Iterable[JudgementRow], shared_names: Collection[str] | None = None
) -> dict[str, RaterKind]:
    """The kind of each rater, by the names that ``judgements_from`` uses. A rater does not count as a person
    if any of its judgements was made by a model or a program.
    """
    kinds: dict[str, RaterKind] = {}
    for row, name in _named(rows, shared_names):
        if _PLACE[row.kind] >= _PLACE[kinds.get(name, "human")]:
            kinds[name] = row.kind
    return kinds


def judges_in(rows: Iterable[JudgementRow]) -> frozenset[str]:
    """The raters that are models or programs. Only people's judgements are pooled; all other raters are
    measured by their agreement with people.
    """
    return frozenset(name for name, kind in _kinds_in(rows).items() if kind != "human")


_PLACE: Final[Mapping[RaterKind, int]] = {"human": 0, "program": 1, "model": 2}


def _named(rows: Iterable[R], shared_names: Collection[str] | None) -> Iterable[tuple[R, str]]:
    """Each row with its rater's name, which includes the credential if several credentials use the name."""
    rows = list(rows)
    if shared_names is None:
        callers: dict[str, set[str]] = {}
        for row in rows:
            callers.setdefault(row.rater, set()).add(row.caller)
        shared_names = {name for name, callers_of in callers.items() if len(callers_of) > 1}
    for row in rows:
        name = row.rater
        yield row, f"{name} ({row.caller})" if name in shared_names else name


def spoken_from(
    rows: Sequence[StatementsRow], shared_names: Collection[str] | None = None
) -> list[SpeechJudgement]:
    """Stored judgements of statements in the form that evaluators accept. ``shared_names``: as in
    ``judgements_from``.
    """
    return [
        SpeechJudgement(
            SpeechKey(row.game_id, row.request_id, row.turn),
            tuple(
                Statement(
                    statement["start"],
                    statement["end"],
                    statement["verdict"],
                    statement["record"],
                    statement["reason"],
                )
                for statement in row.statements
            ),
            name,
            _against(row.control_speeches),
        )
        for row, name in _named(rows, shared_names)
    ]


def _against(control_speeches: Mapping[str, int] | None) -> dict[Against, int] | None:
    if control_speeches is None:
        return None
    return {
        (rules, judge): n
        for (rules, _, judge), n in ((s.partition("/"), n) for s, n in control_speeches.items())
    }


# --- answers ----------------------------------------------------------------------------------------


def answered_by_game(
    rater: str, dimension: Any, variant: Mapping[str, Any], rows: Iterable[AnswerRow], kind: RaterKind
) -> dict[str, Answered]:
    """One rater's answers to items of one variant, by game."""
    of_game: dict[str, list[AnswerRow]] = {}
    for row in rows:
        of_game.setdefault(row.game_id, []).append(row)
    return {
        game_id: Answered(
            dimension,
            rater,
            list(guesses_of(given).values()),
            Variant.scored(variant),
            variant["unmapped"],
            kind,
        )
        for game_id, given in of_game.items()
    }


# --- everything about some games --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RaterWork:
    """The valid judgements and answers about some games, and the damaged ones."""

    judgements: Mapping[str, Sequence[Judgement]]
    """By game."""
    kinds: Mapping[str, RaterKind]
    """The kind of each rater of judgements, by name."""
    answers: Mapping[str, Sequence[Answered]]
    """By game, with samples joined."""
    statements: Mapping[str, Sequence[SpeechJudgement]]
    """By game, the judgements of the statements in its speeches."""
    damaged: Sequence[DamagedRow]
    """Judgements and answers that can no longer be read."""

    @property
    def judges(self) -> frozenset[str]:
        """The raters of judgements that are not people."""
        return frozenset(name for name, kind in self.kinds.items() if kind != "human")


class RaterWorkReader:
    """Reads judgements and answers about a set of games. A rater has the same name in all of them; it
    includes the credential if several credentials use the name.
    """

    def __init__(self, store: EvaluationStore, whose: Whose | None, shared_names: frozenset[str]) -> None:
        """``whose``: reads only what these handed in; None: everybody's work."""
        self._store = store
        self._whose = whose
        self._shared = shared_names
        self._variants: dict[str, tuple[bytes, RaterKind] | None] = {}

    @classmethod
    async def about(
        cls, store: EvaluationStore, games: Collection[str], whose: Whose | None
    ) -> "RaterWorkReader":
        """A reader for these games; ``read`` then takes some of them at a time."""
        return cls(store, whose, await store.shared_names(games, whose))

    async def read(
        self, games: Collection[str], dimensions: Collection[AnsweredDimension] = ANSWERED
    ) -> RaterWork:
        """The valid judgements about these games, and the valid answers of these dimensions."""
        rows = await self._store.judgements_of(games, whose=self._whose)
        spoken: dict[str, list[SpeechJudgement]] = {}
        statements = await self._store.statements_of(games, self._whose)
        for judged in spoken_from(statements, self._shared):
            spoken.setdefault(judged.key.game_id, []).append(judged)
        answered, damaged = await self._answers(games, dimensions)
        return RaterWork(
            by_game(judgements_from(rows, self._shared)),
            _kinds_in(rows, self._shared),
            answered,
            spoken,
            [*rows.damaged, *statements.damaged, *damaged],
        )

    async def _answers(
        self, games: Collection[str], dimensions: Collection[AnsweredDimension]
    ) -> tuple[dict[str, list[Answered]], list[DamagedRow]]:
        """The answers by game, and the damaged rows, including answers whose evaluation cannot be read."""
        by_rater: dict[tuple[str, str, bytes], list[AnswerRow]] = {}
        kinds: dict[str, RaterKind] = {}
        damaged: list[DamagedRow] = []
        for dimension in dimensions:
            rows = await self._store.answers_about(games, dimension, self._whose, self._variants_of)
            damaged += rows.damaged
            for row, name in _named(rows, self._shared):
                evaluation = self._variants[row.evaluation_id]
                if evaluation is None:
                    damaged.append(DamagedRow("answers", row.game_id, name_of(row)))
                    continue
                variant, kind = evaluation
                by_rater.setdefault((name, dimension, variant), []).append(row)
                if _PLACE[kind] >= _PLACE[kinds.get(name, "human")]:
                    kinds[name] = kind
        by_id: dict[str, list[Answered]] = {}
        for (rater, about, text), given in sorted(by_rater.items(), key=lambda entry: entry[0]):
            by_game_id = await off_loop(
                answered_by_game, rater, about, orjson.loads(text), given, kinds[rater]
            )
            for game_id, answered in by_game_id.items():
                by_id.setdefault(game_id, []).append(answered)
        return by_id, damaged

    async def _variants_of(self, evaluation_ids: Collection[str]) -> Mapping[str, Hashable]:
        for evaluation_id in evaluation_ids:
            if evaluation_id not in self._variants:
                self._variants[evaluation_id] = await self._variant(evaluation_id)
        return {one: None if made is None else made[0] for one, made in self._variants.items()}

    async def _variant(self, evaluation_id: str) -> tuple[bytes, RaterKind] | None:
        """How the evaluation's items were made, as JSON, and its rater's kind. The filter on what was
        followed is left out: reports have figures with and without it. None for a missing evaluation or an
        unreadable one.
        """
        try:
            evaluation = await self._store.evaluation(evaluation_id)
            given = None if evaluation is None else VariantSpec.model_validate(evaluation.spec["variant"])
        except (CorruptLog, ValidationError):
            return None
        if evaluation is None or given is None:
            return None
        variant: dict[str, Any] = {**given.model_dump(mode="json"), "followed": False}
        return orjson.dumps(variant, option=orjson.OPT_SORT_KEYS), evaluation.kind
