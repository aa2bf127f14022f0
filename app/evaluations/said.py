"""What was judged and answered about games, as evaluators take it, some games at a time."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from app.evaluations.judge_work import spoken_from
from app.evaluations.judged import judgements_from, kinds_in
from app.evaluations.schemas import RaterKind
from app.evaluations.scoring import answered_by_game
from app.store.evaluations import EvaluationStore
from app.store.games import Row
from evaluators.judgements import Judgement, by_game
from evaluators.report import Answered
from evaluators.statement_scores import SpeechJudgement

__all__ = ["Said", "SaidAbout"]

Dimension = Literal["guessing", "summarisation"]


@dataclass(frozen=True, slots=True)
class Said:
    """What stands about some games."""

    judgements: Mapping[str, Sequence[Judgement]]
    """By game."""
    kinds: Mapping[str, RaterKind]
    """Of the raters of judgements."""
    answers: Mapping[str, Sequence[Answered]]
    """By game; samples joined."""
    statements: Mapping[str, Sequence[SpeechJudgement]]
    """By game: what judges say of its speeches."""

    @property
    def judges(self) -> frozenset[str]:
        """The raters of judgements that are no people."""
        return frozenset(name for name, kind in self.kinds.items() if kind != "human")


class SaidAbout:
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
    async def games(cls, store: EvaluationStore, games: Collection[str], whose: str | None) -> "SaidAbout":
        """Of these games; ``read`` then takes some of them at a time."""
        return cls(store, whose, frozenset() if whose is not None else await store.shared_names(games))

    async def read(
        self, games: Collection[str], dimensions: Collection[Dimension] = ("guessing", "summarisation")
    ) -> Said:
        """What stands about these games: judgements, and answers of these dimensions."""
        rows = await self._store.judgements_of(games, caller=self._whose)
        spoken: dict[str, list[SpeechJudgement]] = {}
        words = await self._store.statements_of(games, caller=self._whose)
        for word in spoken_from(words, self._shared):
            spoken.setdefault(word.key.game_id, []).append(word)
        return Said(
            by_game(judgements_from(rows, self._shared)),
            kinds_in(rows, self._shared),
            await self._answers(games, dimensions),
            spoken,
        )

    async def _answers(
        self, games: Collection[str], dimensions: Collection[Dimension]
    ) -> dict[str, list[Answered]]:
        sorted_: dict[tuple[str, str, bytes], list[Row]] = {}
        for dimension in dimensions:
            for row in await self._store.answers_about(games, dimension):
                if self._whose is None or row["caller"] == self._whose:
                    rater = row["rater"]
                    name = f"{rater} ({row['caller']})" if rater in self._shared else rater
                    key = name, dimension, await self._variant(row["evaluation_id"])
                    sorted_.setdefault(key, []).append(row)
        found: dict[str, list[Answered]] = {}
        for (rater, about, text), given in sorted(sorted_.items(), key=lambda one: one[0]):
            for game_id, answered in answered_by_game(rater, about, orjson.loads(text), given).items():
                found.setdefault(game_id, []).append(answered)
        return found

    async def _variant(self, evaluation_id: str) -> bytes:
        """How the evaluation's items were made. Without its filter: whoever reads this tells both, what
        was followed and all of it.
        """
        if evaluation_id not in self._variants:
            evaluation = await self._store.evaluation(evaluation_id)
            assert evaluation is not None
            variant: dict[str, Any] = {**evaluation["wish"]["variant"], "followed": False}
            self._variants[evaluation_id] = orjson.dumps(variant, option=orjson.OPT_SORT_KEYS)
        return self._variants[evaluation_id]
