"""Judgements of selected intentions: whether each is reasonable, and how well it was followed.

A judgement is made by one rater about one intention of one stage of one speaking turn. People and model
judges give the same kind of value; ``rater`` is the name of the person or model. InterIntent (EMNLP 2024),
section 3.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.intentions import IntentionId
from engine.thoughts import SelectionStage

__all__ = [
    "SCORES",
    "FollowScore",
    "Judgement",
    "StageKey",
    "by_game",
    "follow_scores",
    "good",
    "sufficient",
]

SCORES: Final = (1, 2, 3, 4, 5)
"""1 absent or contrary, 2 only repeated, 3 borderline, 4 nearly perfect, 5 perfect."""


def good(score: float) -> bool:
    """Whether a following score counts as good: 4 or 5; 1 to 3 are flawed."""
    return score >= 4


def sufficient(score: float, least: float = 3) -> bool:
    """Whether an intention with this following score can be recognised in the speech: 3 or more."""
    return score >= least


class StageKey(NamedTuple):
    """One stage of one speaking turn."""

    game_id: str
    request_id: str
    stage: SelectionStage


@dataclass(frozen=True, slots=True)
class Judgement:
    """One rater's judgement of one intention in one stage of a turn."""

    game_id: str
    request_id: str
    """The speaking turn, e.g. ``2.1.speak.3``."""
    stage: SelectionStage
    """``first``: the first selection and the formulation that acts on it; ``final``: the final selection and
    the refinement."""
    intention: IntentionId
    reasonable: bool | None
    """None if not judged."""
    think: int | None
    """1 to 5; None if not judged."""
    speak: int | None
    """1 to 5; None if not judged."""
    rater: str

    def __post_init__(self) -> None:
        for name in ("think", "speak"):
            score = getattr(self, name)
            if score is not None and score not in SCORES:
                raise ValueError(f"a following score must be 1 to 5 or None, got {name}={score!r}")

    @property
    def key(self) -> StageKey:
        """The judged stage."""
        return StageKey(self.game_id, self.request_id, self.stage)


class FollowScore(NamedTuple):
    """The scores for following one intention: means over the raters that scored it; None if nobody did."""

    think: float | None
    speak: float | None


def by_game(judgements: Iterable[Judgement]) -> dict[str, list[Judgement]]:
    """Judgements by game, in the order of the input."""
    grouped: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        grouped.setdefault(judgement.game_id, []).append(judgement)
    return grouped


def follow_scores(judgements: Iterable[Judgement]) -> dict[StageKey, dict[IntentionId, FollowScore]]:
    """The following scores of every judged stage by intention, for the filter on followed intentions.

    The scores of several raters of one intention are averaged; pass the judgements of one rater to filter by
    that rater alone.
    """
    scores: dict[StageKey, dict[IntentionId, tuple[list[int], list[int]]]] = {}
    for judgement in judgements:
        think, speak = scores.setdefault(judgement.key, {}).setdefault(judgement.intention, ([], []))
        if judgement.think is not None:
            think.append(judgement.think)
        if judgement.speak is not None:
            speak.append(judgement.speak)
    return {
        key: {id_: FollowScore(_mean(think), _mean(speak)) for id_, (think, speak) in of_stage.items()}
        for key, of_stage in scores.items()
    }


def _mean(scores: list[int]) -> float | None:
    return sum(scores) / len(scores) if scores else None
