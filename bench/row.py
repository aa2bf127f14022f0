"""A line of the table."""

from dataclasses import dataclass

__all__ = ["Row"]


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    value: float
    unit: str
    baseline: str = ""
    ratio: float | None = None
    aim: str = ""
