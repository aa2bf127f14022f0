"""Annotation files: one rater's scores of every chosen intention, one row per speaking turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.terms import Seat
from engine.thoughts import SelectionStage
from evaluators.authors.files import Cells, read_table
from evaluators.authors.labels import seat_of

__all__ = ["COLUMNS", "STAGES", "AnnotationRow", "AnnotationScores", "StageColumns", "read_annotation"]

COLUMNS: Final = (
    "player",
    "round",
    "is_secondary_round",
    "intent",
    "intent_selection",
    "intent_fol_think_1",
    "intent_fol_speech_1",
    "intent_mod",
    "intent_selection_mod",
    "intent_fol_think_2",
    "intent_fol_speech_2",
    "comments",
)

_NEEDED: Final = tuple(column for column in COLUMNS if column not in ("is_secondary_round", "comments"))


class StageColumns(NamedTuple):
    """The columns of one stage."""

    labels: str
    selection: str
    think: str
    speech: str


STAGES: Final[dict[SelectionStage, StageColumns]] = {
    "first": StageColumns("intent", "intent_selection", "intent_fol_think_1", "intent_fol_speech_1"),
    "final": StageColumns("intent_mod", "intent_selection_mod", "intent_fol_think_2", "intent_fol_speech_2"),
}


@dataclass(frozen=True, slots=True)
class AnnotationScores:
    """One stage of a row: one score per label, in order. A column is empty if its cell is blank.

    A column may be shorter than ``labels``; the file does not say which labels lack a score. None marks the
    place of a missing score.
    """

    labels: tuple[str, ...]
    selection: tuple[int | None, ...]
    """1 reasonable, 0 not."""
    think: tuple[int | None, ...]
    """1 to 5."""
    speech: tuple[int | None, ...]
    """1 to 5."""


@dataclass(frozen=True, slots=True)
class AnnotationRow:
    """One rater's scores of one speaking turn."""

    file: str
    row: int
    seat: Seat
    round: int
    second: bool
    """Whether it is the round's second attempt."""
    first: AnnotationScores
    final: AnnotationScores
    modified: bool
    """Whether the row has an ``intent_mod`` cell; without one the final labels are the first ones."""
    comments: str


def read_annotation(name: str, content: bytes) -> tuple[AnnotationRow, ...]:
    """The rows of an annotation CSV, in order. Raises InvalidRun.

    Older files lack the column ``is_secondary_round``: there, a seat's second row of a round is the second
    attempt.
    """
    seen: dict[tuple[Seat, int, bool], int] = {}
    rows = []
    for cells in read_table(name, content, _NEEDED):
        seat = seat_of(cells.text("player"))
        if seat is None:
            cells.refuse("player", "a name such as Player3")
        round_ = cells.whole("round")
        if cells.blank("is_secondary_round"):
            second = (seat, round_, False) in seen
        else:
            second = cells.truth("is_secondary_round")
        key = (seat, round_, second)
        if key in seen:
            cells.refuse(
                "player",
                f"one row for Player{seat}, round {round_}, is_secondary_round {second}",
                f"row {seen[key]} has them already: remove one of the two",
            )
        seen[key] = cells.row
        first = cells.labels("intent")
        if first is None:
            cells.refuse("intent", "the chosen intentions")
        final = cells.labels("intent_mod")
        rows.append(
            AnnotationRow(
                file=name,
                row=cells.row,
                seat=seat,
                round=round_,
                second=second,
                first=_scores(cells, "first", first),
                final=_scores(cells, "final", first if final is None else final),
                modified=final is not None,
                comments=cells.text("comments"),
            )
        )
    return tuple(rows)


def _scores(cells: Cells, stage: SelectionStage, labels: Sequence[str]) -> AnnotationScores:
    columns = STAGES[stage]
    wanted = len(labels)
    return AnnotationScores(
        tuple(labels),
        cells.scores(columns.selection, 0, 1, wanted),
        cells.scores(columns.think, 1, 5, wanted),
        cells.scores(columns.speech, 1, 5, wanted),
    )
