"""Texts in the cells of CSV files: none of them becomes a formula in a spreadsheet."""

import re
from typing import Final

__all__ = ["inert", "plain"]

_FORMULA: Final = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
"""What a spreadsheet may read as a formula: some skip white space, some read fullwidth signs."""


def inert(text: str) -> str:
    """The text, with a quote before it if a spreadsheet could read it as a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def plain(cell: str) -> str:
    """The cell without the quote that ``inert`` puts before it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell, 1) else cell
