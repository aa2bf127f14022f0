"""Judgements as CSV: what ``GET /annotations?format=csv`` writes can be read back."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from app.base.errors import InvalidRequest
from app.evaluations.schemas import JudgementSpec, JudgementView, RaterSpec
from evaluators.ground.items import make_id
from evaluators.report.cells import inert, plain

__all__ = ["FIELDS", "FLAGS", "SheetLine", "checked", "read_sheet", "write_sheet"]

M = TypeVar("M", bound=BaseModel)

FIELDS: Final = tuple(JudgementView.model_fields)
"""The columns in their order."""

_NEEDED: Final = ("game_id", "request_id", "stage", "intention")
FLAGS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_SCORE: Final = re.compile(r"[1-5](\.0+)?")


def write_sheet(views: Iterable[JudgementView]) -> str:
    """Judgements as CSV: a header, then one judgement on each line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS)
    writer.writeheader()
    for view in views:
        writer.writerow({name: _cell(value) for name, value in view.model_dump(mode="json").items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    return inert(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class SheetLine:
    """One judgement of a sheet."""

    number: int
    """The number of the line in the file, from 1; if cells have several lines, the number of the last one."""
    rater: RaterSpec
    judgement: JudgementSpec


def read_sheet(text: str, *, rater: str | None = None, kind: str | None = None) -> Iterator[SheetLine]:
    """The judgements of a sheet. A line that judges both selection and following gives two judgements.

    ``rater`` and ``kind`` replace the columns of these names. A line without a judgement is skipped: raters
    leave lines empty. Raises InvalidRequest, which names line and column.
    """
    # Lines end as in CSV: a comment may hold characters at which str.splitlines ends one too.
    lines = io.StringIO(text.removeprefix("\ufeff").replace("\0", "\ufffd"), newline="")
    header = lines.readline()
    lines.seek(0)
    reader = csv.reader(lines, delimiter=";" if ";" in header and "," not in header else ",", strict=True)
    columns: list[str] | None = None
    try:
        for cells in reader:
            number = reader.line_num
            if columns is None:
                columns = _columns(cells)
                continue
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(columns):
                raise _wrong(number, "", f"{len(cells)} cells, the header has {len(columns)}")
            values = {name: plain(cell) for name, cell in zip(columns, cells, strict=True)}
            yield from _line(number, values, rater, kind)
    except csv.Error as fault:
        raise _wrong(reader.line_num, "", str(fault)) from None
    if columns is None:
        raise InvalidRequest(f"the file is empty; it begins with a header: {', '.join(FIELDS)}")


def _columns(cells: list[str]) -> list[str]:
    columns = [cell.strip() for cell in cells]
    if unknown := sorted(set(columns) - set(FIELDS)):
        raise _wrong(1, "", f"no such column: {', '.join(unknown)}; there are {', '.join(FIELDS)}")
    if missing := [name for name in _NEEDED if name not in columns]:
        raise _wrong(1, "", f"the header lacks {', '.join(missing)}")
    if len(set(columns)) < len(columns):
        raise _wrong(1, "", "a column appears twice")
    return columns


def _wrong(number: int, column: str, message: str) -> InvalidRequest:
    place = f"line {number}" + (f", {column}" if column else "")
    return InvalidRequest(f"{place}: {message}", f"/{number}" + (f"/{column}" if column else ""))


def _line(number: int, values: Mapping[str, str], rater: str | None, kind: str | None) -> Iterator[SheetLine]:
    spec = checked(
        RaterSpec,
        {"name": rater or values.get("rater", "").strip(), "kind": kind or values.get("kind") or "human"},
        {"name": "rater", "kind": "kind"},
        partial(_wrong, number),
    )
    scores: dict[str, Any] = {}
    flag = values.get("reasonable", "").strip().lower()
    if flag:
        if flag not in FLAGS:
            raise _wrong(number, "reasonable", "must be 1 or 0, true or false, yes or no, or empty")
        scores["reasonable"] = FLAGS[flag]
    for part in ("think", "speak"):
        score = values.get(part, "").strip()
        if score:
            if _SCORE.fullmatch(score) is None:
                raise _wrong(number, part, "a score is 1, 2, 3, 4 or 5, or empty")
            scores[part] = int(score[0])
    for dimension in ("selection", "following"):
        own = {name: scores[name] for name in scores if (name == "reasonable") is (dimension == "selection")}
        if own:
            yield SheetLine(number, spec, _judgement(number, dimension, values, own))


def _judgement(
    number: int, dimension: Any, values: Mapping[str, str], scores: dict[str, Any]
) -> JudgementSpec:
    stage: Any = values["stage"].strip()
    if stage not in ("first", "final"):
        raise _wrong(number, "stage", "must be first or final")
    item = make_id(values["game_id"].strip(), dimension, values["request_id"].strip(), stage, None)
    given = {"item_id": item, "intention": values["intention"].strip(), **scores}
    if values.get("comment"):
        given["comment"] = values["comment"]
    return checked(JudgementSpec, given, {"item_id": "request_id"}, partial(_wrong, number))


def checked(
    model: type[M],
    given: Mapping[str, Any],
    columns: Mapping[str, str],
    refuse: Callable[[str, str], InvalidRequest],
) -> M:
    """Reads the fields of a line. For the first wrong field, raises the error that ``refuse`` makes of its
    column and its fault. ``columns``: the column of each field that is not in a column of its own name.
    """
    try:
        return model.model_validate(given)
    except ValidationError as fault:
        first = fault.errors(include_input=False)[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        raise refuse(columns.get(name, name), first["msg"]) from None
