"""The names under which the work of a study's raters is kept."""

from app.evaluations.study_raters import rater_key
from evaluators.study.file import EvaluationAsked


def test_what_raters_have_said_is_found_again_by_later_versions() -> None:
    judge = EvaluationAsked(kind="judge", dimension="selection", model="large")
    assert rater_key(judge) == "judge-selection-fdd8959d"
    guesser = EvaluationAsked(kind="guesser", dimension="guessing", model="small", samples=3)
    assert rater_key(guesser) == "guesser-guessing-16def270"
    checker = EvaluationAsked(kind="judge", dimension="statements", model="large")
    assert rater_key(checker) != rater_key(checker.model_copy(update={"planted": 0}))
    assert rater_key(checker) == rater_key(checker.model_copy(update={"name": "another"}))
