"""Reads bytes into JSON values and table cells; errors name the place in the file."""

import ast
import csv
import io
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from evaluators.errors import InvalidRun
from evaluators.json_faults import json_fault

__all__ = ["Cells", "FileLocation", "literal", "read_json", "read_table"]


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A location in a JSON file: the file and the keys that lead there."""

    file: str
    keys: tuple[str, ...] = ()

    def at(self, *keys: object) -> "FileLocation":
        return FileLocation(self.file, (*self.keys, *map(str, keys)))

    def refuse(self, expected: str, found: object, then: str = "") -> NoReturn:
        """Raises InvalidRun with the location, what was expected and found, and what to do (``then``)."""
        where = f"{self.file}: {' / '.join(self.keys)}" if self.keys else self.file
        raise InvalidRun(f"{where}: expected {expected}, found {_shown(found)}{then and '; '}{then}")

    def mapping(self, value: object) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            self.refuse("an object", value)
        return value

    def items(self, value: object) -> Sequence[Any]:
        if not isinstance(value, list):
            self.refuse("a list", value)
        return value

    def text(self, value: object) -> str:
        if not isinstance(value, str):
            self.refuse("a string", value)
        return value

    def texts(self, value: object) -> tuple[str, ...]:
        """A list of strings; a list that is written as one string, as in some answers, is read too."""
        if isinstance(value, str):
            value = _listed(value)
            if value is None:
                self.refuse("a list of strings", value)
        return tuple(self.at(number).text(item) for number, item in enumerate(self.items(value), 1))

    def need(self, value: Mapping[str, Any], key: str) -> Any:
        if key not in value:
            self.refuse(f"the key {key!r}", sorted(value), "is the file whole?")
        return value[key]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidRun(
            f"{name}: expected UTF-8, found byte {content[fault.start]:#04x} at {fault.start}; "
            "save the file as UTF-8"
        ) from None


def read_json(name: str, content: bytes) -> Any:
    """The JSON value of a file, with or without a byte order mark. Raises InvalidRun."""
    try:
        value = json.loads(_text(name, content))
        # Python accepts half of a surrogate pair, but files and databases do not.
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as fault:
        raise InvalidRun(f"{name}: expected JSON, found {json_fault(fault)}") from None


class Cells:
    """One row of a CSV file by column names. ``row`` is its number in the table; the header is row 1."""

    def __init__(self, file: str, row: int, values: Mapping[str, str]) -> None:
        self.file = file
        self.row = row
        self._values = values

    def refuse(self, column: str, expected: str, then: str = "") -> NoReturn:
        raise InvalidRun(
            f"{self.file}: row {self.row}, column {column}: expected {expected}, "
            f"found {_shown(self._values.get(column, ''))}{then and '; '}{then}"
        )

    def text(self, column: str) -> str:
        """The cell as written; empty if the column or the cell is missing."""
        return self._values.get(column, "")

    def blank(self, column: str) -> bool:
        return self.text(column).strip().lower() in _BLANK

    def whole(self, column: str) -> int:
        """A whole number; spreadsheets write 3 as 3.0."""
        match = _WHOLE.fullmatch(self.text(column).strip())
        if match is None:
            self.refuse(column, "a whole number")
        return int(match[1])

    def truth(self, column: str) -> bool:
        word = self.text(column).strip().lower()
        if word not in _TRUTHS:
            self.refuse(column, "True or False")
        return _TRUTHS[word]

    def labels(self, column: str) -> tuple[str, ...] | None:
        """A list written as a Python or JSON literal; None if the cell is blank."""
        if self.blank(column):
            return None
        listed = _listed(self.text(column))
        if listed is None or not all(isinstance(label, str) for label in listed):
            self.refuse(column, "a list of labels such as ['Support team proposal.']")
        return tuple(listed)

    def scores(self, column: str, low: int, high: int, wanted: int) -> tuple[int | None, ...]:
        """Whole numbers separated by commas; empty if the cell is blank.

        A full stop separates too, as in the released scripts, since a spreadsheet turns ``1,0`` into 1.0. If
        only one score is wanted, 5.0 counts as 5. A blank place, as in ``4,,5``, is None if the cell has the
        wanted number of places; else it is left out.
        """
        if self.blank(column):
            return ()
        text = self.text(column).strip().strip("[]()")
        if wanted == 1 and (number := _WHOLE.fullmatch(text)):
            parts = [number[1]]
        else:
            parts = [part.strip() for part in text.split(",")]
            if len(parts) != wanted:
                parts = [part for part in _BETWEEN.split(text) if part]
        if not all(not part or (part in _DIGITS and low <= int(part) <= high) for part in parts):
            self.refuse(column, f"numbers {low} to {high} separated by commas")
        return tuple(int(part) if part else None for part in parts)


_BLANK: Final = frozenset({"", "nan", "none", "null"})
_WHOLE: Final = re.compile(r"(\d{1,6})(?:\.0*)?")
_DIGITS: Final = frozenset("0123456789")
_BETWEEN: Final = re.compile(r"[,.;\s]+")
_TRUTHS: Final = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def _listed(text: str) -> list[Any] | None:
    """The list that a Python or JSON literal denotes; None if it does not denote one."""
    straight = text.strip().replace("\u201c", '"').replace("\u201d", '"')
    for candidate in (text.strip(), straight):
        value = literal(candidate)
        if isinstance(value, list | tuple):
            return list(value)
    return None


def literal(text: str) -> object:
    """The value of a Python or JSON literal; None if the text is not a literal."""
    for read in (ast.literal_eval, json.loads):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about unknown escapes
                value = read(text)
            str(value).encode()
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        return value
    return None


def read_table(name: str, content: bytes, needed: Sequence[str]) -> tuple[Cells, ...]:
    """The rows of a CSV file that are not blank. Raises InvalidRun if a needed column is missing.

    Line ends may be of any kind, and the file may begin with a byte order mark. Commas separate the cells, or
    semicolons, as some spreadsheets write them. Other columns are kept.
    """
    text = _text(name, content)
    line = text.partition("\n")[0]
    delimiter = ";" if ";" in line and "," not in line else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows = []
    header: list[str] | None = None
    try:
        for number, values in enumerate(reader, 1):
            if header is None:
                header = [column.strip() for column in values]
                if missing := [column for column in needed if column not in header]:
                    raise InvalidRun(
                        f"{name}: expected the columns {', '.join(needed)}; missing: {', '.join(missing)}; "
                        f"found {', '.join(header)}"
                    )
            elif any(value.strip() for value in values):
                rows.append(Cells(name, number, dict(zip(header, values, strict=False))))
    except csv.Error as fault:
        raise InvalidRun(f"{name}: line {reader.line_num}: expected CSV, found {fault}") from None
    if header is None:
        raise InvalidRun(
            f"{name}: expected a table with the columns {', '.join(needed)}, found an empty file"
        )
    return tuple(rows)
