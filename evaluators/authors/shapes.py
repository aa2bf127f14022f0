"""The forms in which ``expected.json`` gives a figure."""

from collections.abc import Mapping
from math import isnan

__all__ = ["DIGITS", "Figure", "Value", "rounded", "share"]

Value = int | float | str | None | list[str] | Mapping[str, int]
Figure = dict[str, Value]

DIGITS = 6
"""Places after the point in their files."""


def rounded(value: float | None) -> float | None:
    """To the places of their files; None for what is undefined."""
    return None if value is None or isnan(value) else round(value, DIGITS)


def share(num: int, den: int) -> Figure:
    """``num`` of ``den``; the value is None where nothing could be counted."""
    return {"num": num, "den": den, "value": rounded(num / den) if den else None}
