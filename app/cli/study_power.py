"""What a study can find: the smallest difference for each of its questions."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

from app.cli.study_running import read_finished
from app.runner.study_folder import StudyFolder
from engine.terms import Side
from evaluators.statistics.power import WORST_SD, smallest_difference
from evaluators.study.design import Design

__all__ = ["finds"]

_FEWEST: Final = 4
"""Pilot games of each condition, and pairs of them, from which variance and pairing are reckoned."""

_MOST_ALIKE: Final = 0.8
"""The largest correlation of pairs that a pilot is believed."""


@dataclass(frozen=True, slots=True)
class _Pilot:
    """What pilot games say of who wins."""

    sd: float
    correlation: float
    games: int


def finds(folder: StudyFolder, design: Design) -> list[dict[str, Any]]:
    """For each question: games in each condition, and the smallest difference in the share of games won. From
    pilot games where there are enough, else in the worst case. Raises ModuleNotFoundError without scipy.
    """
    study = design.study
    asked = [(one.text, one.contrast) for one in study.questions] or [("Any two cells", "")]
    outcomes = _outcomes(StudyFolder(folder.path, pilot=True), design)
    return [_found(design, outcomes, text, contrast, len(asked)) for text, contrast in asked]


def _found(
    design: Design, outcomes: dict[str, dict[str, float]], text: str, contrast: str, questions: int
) -> dict[str, Any]:
    games = _games(design, contrast)
    pilot = _pilot(design, outcomes, contrast)
    sd, correlation = (WORST_SD, 0.0) if pilot is None else (pilot.sd, pilot.correlation)
    alphas = [0.05] if questions == 1 else [0.05, 0.05 / questions]
    values = [
        smallest_difference(games, sd=sd, correlation=correlation, alpha=alpha).difference for alpha in alphas
    ]
    several = f", the second with Holm's correction for {questions} questions" if questions > 1 else ""
    if pilot is None:
        basis = "ASSUMED: the worst case, half of the games, and pairs that are not alike"
    else:
        basis = f"from {pilot.games} pilot games: standard deviation {sd:.2f}, correlation {correlation:.2f}"
    asked = text if text.endswith("?") else f"{text}."
    found = " to ".join(map(_points, values))
    return {
        "question": text,
        "contrast": contrast,
        "games": games,
        "difference": values[0],
        "difference_corrected": values[-1],
        "sd": sd,
        "correlation": correlation,
        "assumed": pilot is None,
        "words": f"{asked} With {games} games in each condition it finds {found} in the share of games won, "
        f"with 80 % power{several} ({basis})",
    }


def _points(difference: float | None) -> str:
    # A share cannot differ by more than all.
    if difference is None or difference > 1:
        return "no difference"
    return f"a difference of {100 * difference:.0f} points"


def _arms(design: Design, contrast: str) -> list[list[str]]:
    """The cells of each level of the contrast; empty if its column is no label of cells."""
    column, _, levels = contrast.partition("=")
    arms = [
        [cell.id for cell in design.cells if cell.labels.get(column) == level.strip()]
        for level in levels.split(",")
    ]
    return arms if all(arms) else []


def _games(design: Design, contrast: str) -> int:
    """Games in the smaller condition: those of its cells, or of one cell without a contrast, or all games
    where the conditions share their games, as models do that sit at one table.
    """
    each = design.study.design.games
    if not contrast:
        return each
    arms = _arms(design, contrast)
    return min(len(cells) * each for cells in arms) if arms else design.size


def _outcomes(pilots: StudyFolder, design: Design) -> dict[str, dict[str, float]]:
    """By cell: 1 for each pilot game that loyal won, else 0, by what the games of a pair share."""
    found: dict[str, dict[str, float]] = {cell.id: {} for cell in design.cells}
    for cell, name in pilots.games():
        if cell in found:
            won = read_finished(pilots, cell, name).winner is Side.LOYAL
            found[cell][name.rpartition("_")[2]] = float(won)
    return found


def _pilot(design: Design, outcomes: dict[str, dict[str, float]], contrast: str) -> _Pilot | None:
    """Standard deviation and correlation from the pilot games of the first two levels; None: too few."""
    arms = _arms(design, contrast)
    if not contrast or len(arms) < 2:
        return None
    first, second = ([outcomes[cell] for cell in arm] for arm in arms[:2])
    shares = []
    for arm in (first, second):
        values = [value for games in arm for value in games.values()]
        if len(values) < _FEWEST:
            return None
        # One game more of each outcome: a few equal games are no proof that all are.
        shares.append((sum(values) + 1) / (len(values) + 2))
    pairs = [
        (one[place], other[place])
        for one, other in zip(first, second, strict=False)
        for place in one.keys() & other.keys()
    ]
    variances = [share * (1 - share) for share in shares]
    together = sum((a - shares[0]) * (b - shares[1]) for a, b in pairs) / (len(pairs) + 2)
    alike = together / sqrt(variances[0] * variances[1]) if len(pairs) >= _FEWEST else 0.0
    games = sum(len(games) for arm in (first, second) for games in arm)
    return _Pilot(sqrt(sum(variances) / 2), min(_MOST_ALIKE, max(0.0, alike)), games)
