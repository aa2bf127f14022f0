"""Sheets for people who judge, as CSV and XLSX: written blank, and read back filled in.

Text never becomes a formula. In CSV a leading ``=``, ``+``, ``-`` or ``@`` has a quote before it, also behind
white space and in its fullwidth form; in XLSX every text is stored as text. A cell holds at most 32,000
characters, since spreadsheets cut longer ones: longer contexts go on in further columns (``context_2``, …).
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from app.base.errors import InvalidRequest
from app.base.zips import DamagedZip, unpacking
from app.files.rater_rows import ANSWERS, GUIDELINES, NOT_ASKED, Filled, RaterRow, filled, refuse
from evaluators.report.cells import inert, plain

__all__ = ["csv_sheet", "read_csv", "read_xlsx", "xlsx_sheet"]

_CELL: Final = 32_000
_ROWS: Final = 100_000
"""The most rows of a workbook that is read."""

_UNPACKED: Final = 128 << 20
"""The most bytes of a workbook that is read, when unpacked."""

_BEFORE: Final = ("key", "task", "rater", "round", "attempt", "seat", "role", "stage")
_AFTER: Final = ("thinking", "speech", "intention", "reason", "guidelines", *ANSWERS)
_NEEDED: Final = ("key", "reasonable", "think", "speak")

Tasks = Iterable[Sequence[RaterRow]]
"""The rows of each task."""


def _table(tasks: Tasks, rater: str) -> tuple[list[str], list[list[Any]]]:
    """The header and the rows."""
    numbered = [(number, row) for number, rows in enumerate(tasks, 1) for row in rows]
    most = max((_pieces(row.context) for _, row in numbered), default=1)
    contexts = ["context", *(f"context_{number}" for number in range(2, most + 1))]
    header = [*_BEFORE, *contexts, *_AFTER]
    table = []
    for number, row in numbered:
        cells: dict[str, Any] = {
            "task": number,
            "rater": rater,
            **{name: getattr(row, name) for name in header if hasattr(row, name)},
            **{name: "" if name in row.asked else NOT_ASKED for name in ANSWERS[:3]},
            "comment": "",
        }
        for place, name in enumerate(contexts):
            cells[name] = row.context[place * _CELL : (place + 1) * _CELL]
        table.append([_cut(cells[name]) for name in header])
    return header, table


def _pieces(text: str) -> int:
    return max(1, -(-len(text) // _CELL))


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _CELL:
        return f"{value[:_CELL]} [… {len(value) - _CELL} more characters]"
    return value


# --- CSV --------------------------------------------------------------------------------------------


def csv_sheet(tasks: Tasks, rater: str = "") -> bytes:
    """A blank sheet as CSV, in UTF-8 with a mark at the beginning, by which spreadsheets know it."""
    header, table = _table(tasks, rater)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([[inert(cell) if isinstance(cell, str) else cell for cell in cells] for cells in table])
    return text.getvalue().encode("utf-8-sig")


def read_csv(path: Path, rater: str | None, kind: str, mute: list[str]) -> Iterator[Filled]:
    """The judgements of a filled sheet. Commas, semicolons or tabs separate the cells. ``mute`` takes the
    places of comments without a judgement. Raises InvalidRequest, which names row and column, and OSError.
    """
    content = path.read_bytes()
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as fault:
        row = content[: fault.start].count(b"\n") + 1
        raise InvalidRequest(f"{path}: about line {row}: not UTF-8; save it as CSV UTF-8", "") from None
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(
        io.StringIO(text.replace("\0", "\ufffd"), newline=""), delimiter=delimiter, strict=True
    )
    rows = enumerate(reader, 1)
    try:
        yield from _rows(
            path, ((number, [plain(cell) for cell in cells]) for number, cells in rows), rater, kind, mute
        )
    except csv.Error as fault:
        raise InvalidRequest(f"{path}: about line {reader.line_num}: {fault}", "") from None


# --- XLSX -------------------------------------------------------------------------------------------

_SHEET: Final = "Judgements"
_WIDTHS: Final = {
    "context": 80,
    "thinking": 50,
    "speech": 50,
    "intention": 40,
    "guidelines": 40,
    "comment": 40,
}


def xlsx_sheet(tasks: Tasks, rater: str = "") -> bytes:
    """A blank sheet as XLSX: the rows, and the guidelines in a second sheet."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Alignment, Font, PatternFill
    from openpyxl.utils import get_column_letter

    header, table = _table(tasks, rater)
    book = Workbook(write_only=True)
    sheet = book.create_sheet(_SHEET)
    sheet.freeze_panes = "B2"
    for number, name in enumerate(header, 1):
        width = _WIDTHS.get(name.rstrip("_0123456789"), 12)
        sheet.column_dimensions[get_column_letter(number)].width = width
    wrapped, open_ = Alignment(wrap_text=True, vertical="top"), PatternFill("solid", fgColor="FFF2CC")

    def cell(value: Any, **style: Any) -> Any:
        text = isinstance(value, str)
        made = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value) if text else value)
        if text:
            made.data_type = "s"  # openpyxl takes a text that begins with = for a formula
        made.alignment = wrapped
        for name, given in style.items():
            setattr(made, name, given)
        return made

    sheet.append([cell(name, font=Font(bold=True)) for name in header])
    for cells in table:
        sheet.append(
            [
                cell(value, fill=open_) if name in ANSWERS and value == "" else cell(value)
                for name, value in zip(header, cells, strict=True)
            ]
        )
    guidelines = book.create_sheet("Guidelines")
    guidelines.column_dimensions["A"].width = 120
    for line in GUIDELINES.split("\n"):
        guidelines.append([cell(line)])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def read_xlsx(path: Path, rater: str | None, kind: str, mute: list[str]) -> Iterator[Filled]:
    """The judgements of a filled sheet. ``mute``: as for ``read_csv``. Raises InvalidRequest, which names row
    and column, and OSError.
    """
    yield from _rows(path, _cells_of_xlsx(path), rater, kind, mute)


def _cells_of_xlsx(path: Path) -> Iterator[tuple[int, Sequence[Any]]]:
    """The number and the values of each row. A small file may say that it has any number of rows and columns,
    and hold any number of bytes: only what is there is read, up to a bound.
    """
    from xml.etree.ElementTree import ParseError

    from openpyxl import load_workbook

    content = io.BytesIO(path.read_bytes())
    try:
        with unpacking(AttributeError, ParseError, TypeError):
            with ZipFile(content) as parts:
                unpacked = sum(part.file_size for part in parts.infolist())
                if unpacked > _UNPACKED:
                    raise InvalidRequest(
                        f"{path}: {unpacked:,} bytes when unpacked, at most {_UNPACKED:,}: split it", ""
                    )
                sheets = [part for part in parts.namelist() if part.startswith("xl/worksheets/")]
                if any(b"<mergeCell " in parts.read(part) for part in sheets):
                    raise InvalidRequest(
                        f"{path}: there are merged cells, of which one has a value: unmerge them", ""
                    )
            book = load_workbook(content, read_only=True)
            sheet: Any = book[_SHEET] if _SHEET in book.sheetnames else book.worksheets[0]
            sheet.reset_dimensions()
            for number, cells in enumerate(sheet.iter_rows(), 1):
                if number > _ROWS:
                    raise InvalidRequest(f"{path}: more than {_ROWS:,} rows: split it", "")
                yield number, [_value(path, number, cell) for cell in cells]
            book.close()
    except DamagedZip as fault:
        raise InvalidRequest(
            f"{path}: not a workbook (.xlsx), or damaged ({fault}): save it again, without a password",
            "",
        ) from None


def _value(path: Path, row: int, cell: Any) -> Any:
    if cell.data_type == "f":
        raise refuse(f"{path}: row {row}", f"cell {cell.coordinate}", "a formula; type what it comes to")
    return cell.value


# --- both -------------------------------------------------------------------------------------------


def _rows(
    path: Path, rows: Iterable[tuple[int, Sequence[Any]]], rater: str | None, kind: str, mute: list[str]
) -> Iterator[Filled]:
    columns: list[str] | None = None
    for number, cells in rows:
        place = f"{path}: row {number}"
        if columns is None:
            columns = _columns(place, cells)
            continue
        if all(cell is None or not str(cell).strip() for cell in cells):
            continue
        if len(cells) > len(columns) and any(cell not in (None, "") for cell in cells[len(columns) :]):
            raise refuse(place, "", f"{len(cells)} cells, the header has {len(columns)}")
        values = dict(zip(columns, [*cells, *[None] * (len(columns) - len(cells))], strict=False))
        who = rater or str(values.get("rater") or "").strip()
        yield from filled(place, str(values["key"] or ""), values, who, kind, mute)
    if columns is None:
        raise InvalidRequest(f"{path}: the file is empty", "")


def _columns(place: str, cells: Sequence[Any]) -> list[str]:
    columns = ["" if cell is None else str(cell).strip() for cell in cells]
    while columns and not columns[-1]:
        columns.pop()
    known = {*_BEFORE, *_AFTER}
    unknown = [
        name
        for name in columns
        if name not in known and name.rstrip("0123456789") not in ("context", "context_")
    ]
    if "annotation_id" in unknown:
        raise refuse(place, "", "an export of Label Studio: export as JSON, and take that file")
    if unknown:
        raise refuse(place, "", f"no such column: {', '.join(map(repr, unknown))}; the header was changed")
    if missing := [name for name in _NEEDED if name not in columns]:
        raise refuse(place, "", f"the header lacks {', '.join(missing)}")
    if len(set(columns)) < len(columns):
        raise refuse(place, "", "a column appears twice")
    return columns
