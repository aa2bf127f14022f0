"""What a person is asked about one speaking turn, as rows: one for each chosen intention of each stage.

``app.files.rater_sheets`` writes the rows as CSV and XLSX, ``app.files.label_studio`` for Label Studio; both
give back the judgements that were filled in. A row is known again by its key,
``game/request/stage/intention``, which no spreadsheet takes for a number, a date or a formula.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from typing import Any, Final, get_args

from app.base.errors import InvalidRequest
from app.evaluations.schemas import JudgementSpec, JudgingRaterSpec
from app.evaluations.sheet import FLAGS, checked
from engine.intentions import BY_ID, normalise
from engine.thoughts import SelectionStage
from evaluators.ground.items import Dimension, items, make_id
from evaluators.ground.turns import Game
from evaluators.judges.rubric import following_text, selection_text

__all__ = [
    "ANSWERS",
    "GUIDELINES",
    "NOT_ASKED",
    "Filled",
    "RaterRow",
    "filled",
    "rater_rows",
    "refuse",
]

ANSWERS: Final = ("reasonable", "think", "speak", "comment")
"""The columns that a rater fills."""

NOT_ASKED: Final = "not asked"
"""Stands where a rater has nothing to fill in."""

GUIDELINES: Final = f"""\
Each row is one intention that a seat chose for one speech, in one of two stages: first (the first choice, and
the draft that acts on it) and final (what was kept or changed, and the speech that the table heard). Fill the
columns reasonable, think and speak; leave empty what you cannot judge; change nothing where it says
"{NOT_ASKED}", and no other column but comment.

reasonable: 1 if the intention is reasonable in what the seat knew when it chose, else 0.
think: how well the thinking acts on the intention, 1 to 5.
speak: how well the speech acts on the intention, 1 to 5.

Selection: is it reasonable?

{selection_text()}

Following: is it acted on?

{following_text()}
"""
"""The guidelines for raters: the rubric of the model judges, so that people and models judge alike."""

_SHORT: Final = {
    "reasonable": "reasonable: 1 yes, 0 no, in what the seat knew",
    "think": "think, speak: 1 absent or contrary, 2 only repeated, 3 on wrong facts, 4 nearly, 5 fully",
}
_UNHEARD: Final = {
    "speech": "When it chose, the seat had not heard the last speech of the record yet.",
    "summary": "When it chose, the seat had not written its summary of the attempt before yet.",
}


@dataclass(frozen=True, slots=True)
class RaterRow:
    """One chosen intention of one stage, with everything that a rater needs to judge it."""

    key: str
    round: int
    attempt: int
    seat: int
    role: str
    stage: SelectionStage
    context: str
    thinking: str
    speech: str
    intention: str
    """The label."""
    reason: str
    """Why the seat chose it, in its own words; empty if it gave no reason."""
    guidelines: str
    asked: frozenset[str]
    """Those of ``reasonable``, ``think`` and ``speak`` that are asked."""


def rater_rows(game: Game, request_id: str) -> Iterator[RaterRow]:
    """The rows of one speaking turn; none if it has nothing to judge."""
    turn = game.only(request_id)
    selections = {item.stage: item for item in items(turn, "selection")}
    followings = {item.stage: item for item in items(turn, "following")}
    for stage in get_args(SelectionStage):
        selection, following = selections.get(stage), followings.get(stage)
        item = following or selection
        if item is None:
            continue
        # The whole record; what was unheard at the choice is said in words, as in a task.
        whole = next(
            (one for one in (*followings.values(), *selections.values()) if one.context.without is None), item
        )
        asked = {"reasonable"} if selection is not None else set()
        if following is not None:
            asked |= {"think", "speak"}
        unheard = "" if selection is None else selection.context.without or ""
        short = [words for name, words in _SHORT.items() if name in asked]
        short += [_UNHEARD[unheard]] if unheard else []
        for choice in item.asked:
            yield RaterRow(
                key=f"{game.id}/{request_id}/{stage}/{choice.id}",
                round=item.round,
                attempt=item.attempt,
                seat=item.speaker,
                role=game.role(item.speaker).value,
                stage=stage,
                context=whole.context.text,
                thinking=item.think,
                speech=item.speech,
                intention=BY_ID[choice.id].label if choice.id in BY_ID else choice.id,
                reason=choice.reason or item.reason,
                guidelines=". ".join(short),
                asked=frozenset(asked),
            )


# --- what was filled in -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filled:
    """One judgement that a rater filled in."""

    place: str
    """Where it stands: file and row."""
    rater: JudgingRaterSpec
    judgement: JudgementSpec

    @property
    def column(self) -> str:
        """The columns that it was read from."""
        return "reasonable" if self.judgement.reasonable is not None else "think, speak"


def refuse(place: str, column: str, message: str) -> InvalidRequest:
    """The error for one cell."""
    where = f"{place}, {column}" if column else place
    return InvalidRequest(f"{where}: {message}", "")


def filled(
    place: str, key: str, values: Mapping[str, Any], rater: str, kind: str, mute: list[str]
) -> Sequence[Filled]:
    """The judgements of one row: of the selection, of the following, both, or none. ``mute`` takes the place
    of a comment without a judgement, which is not stored. Raises InvalidRequest, which names the place and
    the column: for a wrong cell, and for a key of another turn or intention than the row's other cells.
    """
    reasonable = _flag(place, values.get("reasonable"))
    scores = {part: _score(place, part, values.get(part)) for part in ("think", "speak")}
    given = {part: score for part, score in scores.items() if score is not None}
    parts: list[tuple[Dimension, dict[str, Any]]] = []
    if reasonable is not None:
        parts.append(("selection", {"reasonable": reasonable}))
    if given:
        parts.append(("following", given))
    comment = str(values.get("comment") or "").strip()
    if not parts:
        if comment:
            mute.append(place)
        return ()
    game_id, request_id, stage, intention = _key(place, key)
    _refuse_moved(place, key, values, request_id, stage, intention)
    if not rater:
        raise refuse(place, "rater", "who judged? Fill the column, or name the rater with --rater")
    spec = checked(JudgingRaterSpec, {"name": rater, "kind": kind}, {"name": "rater"}, partial(refuse, place))
    judged = []
    for dimension, own in parts:
        words = {"item_id": make_id(game_id, dimension, request_id, stage, None), "intention": intention}
        words |= own | ({"comment": comment} if comment else {})
        judged.append(
            Filled(place, spec, checked(JudgementSpec, words, {"item_id": "key"}, partial(refuse, place)))
        )
    return judged


def _key(place: str, key: str) -> tuple[str, str, SelectionStage, str]:
    parts = key.strip().rsplit("/", 3)
    if len(parts) != 4 or not all(parts) or parts[2] not in get_args(SelectionStage):
        raise refuse(place, "key", f"expected game/request/stage/intention as it was written, got {key!r}")
    game_id, request_id, stage, intention = parts
    if intention not in BY_ID:
        raise refuse(place, "key", f"no intention is called {intention!r}")
    return game_id, request_id, stage, intention  # type: ignore[return-value]


def _refuse_moved(
    place: str, key: str, values: Mapping[str, Any], request_id: str, stage: str, intention: str
) -> None:
    """Refuses a row whose other cells are of another turn or intention than its key: a spreadsheet can sort
    one column alone. Cells that are empty or missing say nothing.
    """
    round_, attempt, _, seat = [*request_id.split("."), "", "", ""][:4]
    own = {"round": round_, "attempt": attempt, "seat": seat, "stage": stage}
    there = {name: _text(place, name, values.get(name)) for name in own}
    wrong = [name for name, text in there.items() if text and text != own[name]]
    # Another wording than ours may be the spreadsheet's own correction.
    if normalise(str(values.get("intention") or "")) not in (None, intention):
        wrong.append("intention")
    if wrong:
        raise refuse(
            place,
            "key",
            f"{key!r} is not of this row's {' and '.join(wrong)}; put the columns back as they were written",
        )


_WHOLE: Final = re.compile(r"(\d{1,100})(?:[.,]0*)?")


def _text(place: str, column: str, value: Any) -> str:
    """The cell as text; empty if nothing is asked or filled in. Spreadsheets make numbers and dates of what
    is typed: a whole number counts however it is written, a date is refused.
    """
    if isinstance(value, datetime | date | time):
        raise refuse(place, column, f"the spreadsheet made a date of it: {value}; type the number again")
    if isinstance(value, bool):
        return str(value).lower()
    text = "" if value is None else str(value).strip()
    if text.startswith("="):
        raise refuse(place, column, f"a formula ({text[:40]}); type the number")
    whole = _WHOLE.fullmatch(text)
    return "" if text == NOT_ASKED else str(int(whole[1])) if whole else text


def _flag(place: str, value: Any) -> bool | None:
    text = _text(place, "reasonable", value).lower()
    if not text:
        return None
    if text not in FLAGS:
        raise refuse(place, "reasonable", f"expected 1 or 0, yes or no, or nothing, got {text[:40]!r}")
    return FLAGS[text]


def _score(place: str, part: str, value: Any) -> int | None:
    text = _text(place, part, value)
    if not text:
        return None
    if text not in {"1", "2", "3", "4", "5"}:
        raise refuse(place, part, f"expected a score of 1, 2, 3, 4 or 5, or nothing, got {text[:40]!r}")
    return int(text)
