"""Whether the games of a study will have the figures that decide its questions."""

from collections.abc import Callable, Sequence

from app.cli.report import questions_of
from app.runner.study_folder import StudyFault
from engine.seated import SeatedAgent
from evaluators.report.columns import Contrast, planned_columns
from evaluators.report.contrasts import figure_names, is_compared
from evaluators.study.design import Design, PlannedGame, StudyCell

__all__ = ["check_figures"]

Seated = Callable[[StudyCell, PlannedGame], Sequence[SeatedAgent]]


def check_figures(design: Design, seated: Seated) -> None:
    """Raises StudyFault for a question whose ``measure`` no report of the study can have: a figure of whole
    games where the question compares seats of one table, or one of seats where it compares whole games.

    ``seated``: the agents of a planned game. Levels that no planned game has are not judged: the endpoints of
    a server are not known here.
    """
    for index, asked in enumerate(design.study.questions_asked()):
        for contrast in questions_of({"questions": [asked]}):
            name = contrast.measure
            of_seats, of_games = (is_compared(name, of_seats=seats) for seats in (True, False))
            if not name or (of_seats and of_games):
                continue
            cells = _seats_of(design, contrast, seated)
            if of_games and any(found == {False} for found in cells):
                words = "is a figure of whole games, but the question compares seats of one table"
            elif of_seats and all(found == {True} for found in cells):
                words = "is a figure of seats, but the question compares whole games"
            else:
                continue
            there = "; ".join(figure_names(of_seats=of_games))
            raise StudyFault(f"/questions/{index}/measure: {name!r} {words}; there are {there}")


def _seats_of(design: Design, contrast: Contrast, seated: Seated) -> list[set[bool]]:
    """For each cell of the contrast, whether the games that it has seats of are whole in it."""
    cells: list[set[bool]] = [set() for _ in contrast.cells]
    for cell, game in design.all_games():
        labels = {"study": design.study.title, "cell": cell.id, **cell.labels}
        columns = planned_columns(cell.profile, game.roles, seated(cell, game), labels)
        for found, seats in zip(cells, contrast.seats(columns), strict=True):
            if seats:
                found.add(len(seats) == columns.players)
    return cells
