"""What a study can find: the smallest difference for each of its questions."""

from typing import Any

from app.runner.study_folder import StudyFolder
from evaluators.statistics.power import WORST_SD, smallest_difference
from evaluators.study.design import Design

__all__ = ["finds"]


def finds(folder: StudyFolder, design: Design) -> list[dict[str, Any]]:
    """For each question: games in each condition, and the smallest difference of a share of games, in the
    worst case. Raises ModuleNotFoundError without scipy.
    """
    study = design.study
    asked = [(one.text, one.contrast) for one in study.questions] or [("any two cells", "")]
    found = []
    for text, contrast in asked:
        games = _games(design, contrast)
        alphas = [0.05] if len(asked) == 1 else [0.05, 0.05 / len(asked)]
        results = [smallest_difference(games, sd=WORST_SD, alpha=alpha) for alpha in alphas]
        values = [one.difference for one in results]
        shown = " to ".join(_points(value) for value in values)
        several = f", the second with Holm's correction for {len(asked)} questions" if len(asked) > 1 else ""
        words = (
            f"{text}: with {games} games in each condition it finds {shown} of a share of games with 80 % "
            f"power{several}. ASSUMED: the worst case, half of the games, and pairs that are not alike"
        )
        found.append(
            {
                "question": text,
                "contrast": contrast,
                "games": games,
                "difference": values[0],
                "difference_corrected": values[-1],
                "sd": WORST_SD,
                "correlation": 0.0,
                "assumed": True,
                "words": words,
            }
        )
    return found


def _points(difference: float | None) -> str:
    # A share cannot differ by more than all.
    if difference is None or difference > 1:
        return "no difference"
    return f"a difference of {100 * difference:.0f} points"


def _games(design: Design, contrast: str) -> int:
    """Games in the smaller condition: those of its cells, if the column is one of their labels; else all."""
    column, _, levels = contrast.partition("=")
    counts = [
        sum(design.study.design.games for cell in design.cells if cell.labels.get(column) == level.strip())
        for level in levels.split(",")
    ]
    if not contrast:
        return design.study.design.games
    return min(counts) if any(counts) else design.size
