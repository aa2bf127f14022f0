"""What was judged and answered about games, as evaluators take it, some games at a time."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from app.base.off_loop import off_loop
from app.evaluations.judge_work import spoken_from
from app.evaluations.judged import judgements_from, kinds_in
from app.evaluations.schemas import RaterKind, VariantSpec
from app.evaluations.scoring import answered_by_game
from app.store.evaluations import DamagedRow, EvaluationStore
from app.store.rows import AnswerRow, name_of
from engine.errors import CorruptLog
from evaluators.ground.judgements import Judgement, by_game
from evaluators.judges.statement_scores import SpeechJudgement
from evaluators.report.builder import Answered

__all__ = ["RaterWork", "RaterWorkReader"]

Dimension = Literal["guessing", "summarisation"]


@dataclass(frozen=True, slots=True)
class RaterWork:
    """What stands about some games."""

    judgements: Mapping[str, Sequence[Judgement]]
    """By game."""
    kinds: Mapping[str, RaterKind]
    """Of the raters of judgements."""
    answers: Mapping[str, Sequence[Answered]]
    """By game; samples joined."""
    statements: Mapping[str, Sequence[SpeechJudgement]]
    """By game: what judges say of its speeches."""
    damaged: Sequence[DamagedRow]
    """What was said and does not read any more."""

    @property
    def judges(self) -> frozenset[str]:
        """The raters of judgements that are no people."""
        return frozenset(name for name, kind in self.kinds.items() if kind != "human")


class RaterWorkReader:
    """Reads what raters say about a set of games. Raters are called alike in all of them: by their
    name, with the credential behind it where several credentials bear it.
    """

    def __init__(self, store: EvaluationStore, whose: str | None, shared_names: frozenset[str]) -> None:
        """``whose``: the credential that handed it in; None: everybody's."""
        self._store = store
        self._whose = whose
        self._shared = shared_names
        self._variants: dict[str, bytes] = {}

    @classmethod
    async def games(
        cls, store: EvaluationStore, games: Collection[str], whose: str | None
    ) -> "RaterWorkReader":
        """Of these games; ``read`` then takes some of them at a time."""
        return cls(store, whose, frozenset() if whose is not None else await store.shared_names(games))

    async def read(
        self, games: Collection[str], dimensions: Collection[Dimension] = ("guessing", "summarisation")
    ) -> RaterWork:
        """What stands about these games: judgements, and answers of these dimensions."""
        rows = await self._store.judgements_of(games, caller=self._whose)
        spoken: dict[str, list[SpeechJudgement]] = {}
        words = await self._store.statements_of(games, caller=self._whose)
        for word in spoken_from(words, self._shared):
            spoken.setdefault(word.key.game_id, []).append(word)
        answered, lost = await self._answers(games, dimensions)
        return RaterWork(
            by_game(judgements_from(rows, self._shared)),
            kinds_in(rows, self._shared),
            answered,
            spoken,
            [*rows.damaged, *words.damaged, *lost],
        )

    async def _answers(
        self, games: Collection[str], dimensions: Collection[Dimension]
    ) -> tuple[dict[str, list[Answered]], list[DamagedRow]]:
        """What was answered, and the answers that do not read, or of which nothing tells what was asked."""
        sorted_: dict[tuple[str, str, bytes], list[AnswerRow]] = {}
        lost: list[DamagedRow] = []
        for dimension in dimensions:
            found_rows = await self._store.answers_about(games, dimension)
            lost += found_rows.damaged
            for row in found_rows:
                if self._whose is None or row.caller == self._whose:
                    rater = row.rater
                    name = f"{rater} ({row.caller})" if rater in self._shared else rater
                    try:
                        variant = await self._variant(row.evaluation_id)
                    except CorruptLog:
                        lost.append(DamagedRow("answers", row.game_id, name_of(row)))
                        continue
                    sorted_.setdefault((name, dimension, variant), []).append(row)
        found: dict[str, list[Answered]] = {}
        for (rater, about, text), given in sorted(sorted_.items(), key=lambda one: one[0]):
            # Each text is compared with every wording of every intention.
            by_game_id = await off_loop(answered_by_game, rater, about, orjson.loads(text), given)
            for game_id, answered in by_game_id.items():
                found.setdefault(game_id, []).append(answered)
        return found, lost

    async def _variant(self, evaluation_id: str) -> bytes:
        """How the evaluation's items were made. Without its filter: whoever reads this tells both, what
        was followed and all of it. Raises CorruptLog.
        """
        if evaluation_id not in self._variants:
            evaluation = await self._store.evaluation(evaluation_id)
            if evaluation is None:
                raise CorruptLog("an answer is of no evaluation")
            try:
                given = VariantSpec.model_validate(evaluation.spec["variant"])
            except ValidationError:
                raise CorruptLog("an evaluation does not tell its variant") from None
            variant: dict[str, Any] = {**given.model_dump(mode="json"), "followed": False}
            self._variants[evaluation_id] = orjson.dumps(variant, option=orjson.OPT_SORT_KEYS)
        return self._variants[evaluation_id]
