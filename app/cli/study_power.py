"""What a study can find: the smallest difference in every figure that its questions compare."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from pathlib import Path
from typing import Any, Final, NamedTuple

from app.cli.report import questions_of
from app.cli.study_pack import builder_of, pilots_of
from app.cli.study_parts import cells_of
from app.runner.study_folder import StudyFault, StudyFolder
from evaluators.report.columns import Contrast
from evaluators.report.contrasts import ContrastCounts, FigureOfCells, figures_of_cells, range_of
from evaluators.report.tables import Unit
from evaluators.statistics.power import WORST_SD, games_for, smallest_difference, variation
from evaluators.study.design import Design, StudyCell

__all__ = ["finds"]

_RATES: Final = "any rate"
_SCORES: Final = "any score from 1 to 5"

_ALPHA: Final = 0.05

_TEN_POINTS: Final = 0.1


@dataclass(frozen=True, slots=True)
class _Smallest:
    """The smallest difference in one figure."""

    figure: str
    is_main: bool
    unit: Unit
    games: int
    """Games of each condition."""
    deals: int
    """The deals that these are: games of one deal are one trial."""
    difference: float | None
    difference_corrected: float | None
    """With Holm's correction, in its first step."""
    needed: int | None
    """Games of each condition that would find 10 points; None for other figures than rates."""
    sd: float
    correlation: float
    measured: int
    """Deals of each condition in the pilot games; 0: nothing was measured."""

    def as_json(self) -> dict[str, Any]:
        """By name."""
        return {
            "figure": self.figure,
            "main": self.is_main,
            "unit": self.unit,
            "games": self.games,
            "deals": self.deals,
            "difference": self.difference,
            "difference_corrected": self.difference_corrected,
            "games_for_10_points": self.needed,
            "sd": self.sd,
            "correlation": self.correlation,
            "assumed": not self.measured,
            "measured_in": self.measured,
        }


class _Arm(NamedTuple):
    """One condition of a contrast as it is planned."""

    deals: int
    games: int

    def games_in(self, deals: int | None) -> int | None:
        """So many deals in games; None: None."""
        return None if deals is None else ceil(deals * self.games / self.deals)


def finds(folder: StudyFolder, design: Design) -> list[dict[str, Any]]:
    """For each contrast of the questions: the smallest difference that the design finds in each figure.

    Figures that pilot games have are estimated from their variance and pairing; others, and all without pilot
    games, in the worst case, and say so. Raises StudyFault for a deciding figure that the pilot games do not
    have, and ModuleNotFoundError without scipy.
    """
    study = design.study
    asked = questions_of({"questions": study.questions_asked()})
    alphas = [_ALPHA] if len(asked) < 2 else [_ALPHA, _ALPHA / len(asked)]
    if not asked:
        arm = min(_arm_of(design, [cell]) for cell in design.cells)
        return [_difference("Any two cells", "", "", _assumed(design, "", arm, alphas), [])]
    pilots, per_cell = pilots_of(folder, design)
    counts = _counts(StudyFolder(folder.path, pilot=True), pilots, asked) if per_cell else {}
    return [_finds(design, one, counts.get(one), per_cell, alphas) for one in asked]


def _counts(pilots: StudyFolder, design: Design, asked: Sequence[Contrast]) -> dict[Contrast, ContrastCounts]:
    """What the pilot games count in each contrast."""
    with tempfile.TemporaryDirectory(prefix="interintent-plan-") as where:
        builder = builder_of(pilots, design, Path(where), tuple(asked))
    return {one.asked: one for one in builder.contrasts}


def _finds(
    design: Design,
    asked: Contrast,
    counts: ContrastCounts | None,
    per_cell: float,
    alphas: Sequence[float],
) -> dict[str, Any]:
    figures = [] if counts is None else list(figures_of_cells(counts))
    arm = _arm(design, asked)
    measured = list(_measured(design, figures, arm, per_cell, alphas))
    if asked.measure:
        decides = [one for one in measured if one.figure == asked.measure]
        if figures and asked.measure not in {one.name for one in figures}:
            named = ", ".join(dict.fromkeys(one.name for one in figures))
            raise StudyFault(
                f"/questions: no figure of the pilot games is called {asked.measure!r}; there are {named}"
            )
    else:
        decides = measured[:1]
    assumed = _assumed(design, asked.measure, arm, alphas, differences=len(asked.cells) // 2)
    return _difference(asked.question, str(asked), asked.measure, decides or assumed, measured)


def _difference(
    question: str, contrast: str, measure: str, decides: Sequence[_Smallest], figures: Sequence[_Smallest]
) -> dict[str, Any]:
    found = [*decides, *(one for one in figures if one not in decides)]
    return {
        "question": question,
        "contrast": contrast,
        "measure": measure,
        **({} if not found else found[0].as_json()),
        "figures": [one.as_json() for one in found],
    }


def _measured(
    design: Design,
    figures: Sequence[FigureOfCells],
    arm: _Arm,
    per_cell: float,
    alphas: Sequence[float],
) -> Iterator[_Smallest]:
    for one in figures:
        known = variation(one.cells, one.kind, paired=one.paired, limits=one.limits)
        if known is None:
            continue
        # As large a share of the deals has the figure as in the pilot.
        deals = min(arm.deals, max(1, round(known.units * design.study.design.games / per_cell)))
        widest = None if one.limits is None else (one.limits[1] - one.limits[0]) * len(one.cells) / 2
        differences = [
            _possible(
                smallest_difference(
                    deals, sd=known.sd, correlation=known.correlation, paired=known.paired, alpha=alpha
                ).difference,
                widest,
            )
            for alpha in alphas
        ]
        yield _Smallest(
            one.name,
            one.is_main,
            one.unit,
            ceil(deals * arm.games / arm.deals),
            deals,
            differences[0],
            differences[-1],
            arm.games_in(
                games_for(
                    _TEN_POINTS,
                    sd=known.sd,
                    correlation=known.correlation,
                    paired=known.paired,
                    alpha=alphas[-1],
                )
            )
            if one.unit == "share"
            else None,
            known.sd,
            known.correlation,
            known.units,
        )


def _assumed(
    design: Design, measure: str, arm: _Arm, alphas: Sequence[float], *, differences: int = 1
) -> list[_Smallest]:
    """The worst case: half of the games at one end of the figure and half at the other, pairs not alike.

    ``differences``: 2 for an interaction, a difference of two, with twice the variance and twice the range.
    """
    if measure:
        unit, limits = range_of(measure) or ("share", None)
        ranges = [] if limits is None else [(measure, unit, limits)]
    else:
        ranges = [(_RATES, "share", (0.0, 1.0))]
        if any(one.kind == "raters" or one.dimension == "following" for one in design.study.evaluations):
            ranges.append((_SCORES, "number", (1.0, 5.0)))
    found = []
    for name, unit, (low, high) in ranges:
        sd = WORST_SD * (high - low) * sqrt(differences)
        widest = (high - low) * differences
        smallest = [
            _possible(smallest_difference(arm.deals, sd=sd, alpha=alpha).difference, widest)
            for alpha in alphas
        ]
        needed = arm.games_in(games_for(_TEN_POINTS, sd=sd, alpha=alphas[-1])) if unit == "share" else None
        sizes = arm.games, arm.deals
        found.append(_Smallest(name, True, unit, *sizes, smallest[0], smallest[-1], needed, sd, 0.0, 0))
    return found


def _possible(difference: float | None, widest: float | None) -> float | None:
    """No difference is larger than ``widest``, by the figure's range; None: it has none."""
    if difference is None or (widest is not None and difference > widest):
        return None
    return difference


def _arm(design: Design, asked: Contrast) -> _Arm:
    """The smallest condition: of all cells where the conditions share their games, as models do that sit at
    one table.
    """
    return min(_arm_of(design, cells) for _, cells in cells_of(design, asked) if cells)


def _arm_of(design: Design, cells: Sequence[StudyCell]) -> _Arm:
    deals = {
        (cell.profile.name, cell.profile.players, game.seed) for cell in cells for game in design.games(cell)
    }
    return _Arm(len(deals), len(cells) * design.study.design.games)
