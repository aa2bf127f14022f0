"""Metrics of one's own: functions of a row of ``turns``, which reports count like ours.

A package offers a metric by an entry point of the group ``interintent.metrics``. Its name is the metric's
name; its object is a function of one row (``columns``, table ``turns``) that returns a flag, a number, a pair
(numerator, denominator), or None where the metric says nothing about the turn. A report shows the sum of
numerators over the sum of denominators, with intervals, groups and contrasts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from math import isfinite
from typing import Any, Final, NamedTuple

from evaluators.dataset.rows import Row

__all__ = ["METRICS", "OWN_METRICS", "Metric", "TurnCount", "counted", "installed_metrics"]

METRICS: Final = "interintent.metrics"
"""The group of entry points."""

OWN_METRICS: Final = "own_metrics"
"""The table of a report that shows them."""

Metric = Callable[[Mapping[str, Any]], bool | float | tuple[float, float] | None]


class TurnCount(NamedTuple):
    """What one metric says of one turn."""

    numerator: float
    denominator: float
    share: bool
    """Whether the metric said yes or no, so that its mean is a share."""


@cache
def installed_metrics() -> Mapping[str, Metric]:
    """The metrics of all installed packages, by name, sorted. Whatever their import raises is raised."""
    found = {point.name: point.load() for point in entry_points(group=METRICS)}
    return dict(sorted(found.items()))


def counted(
    metrics: Mapping[str, Metric], rows: Sequence[Row]
) -> Iterator[tuple[str, Row, TurnCount | None, str]]:
    """For each metric and row what it counts; else None, with the reason if the metric failed, and with an
    empty reason if it says nothing.
    """
    for name, metric in metrics.items():
        for row in rows:
            # Whatever other people's code raises is reported as its failure; the report goes on.
            try:
                value = metric(row)
            except Exception as fault:
                yield name, row, None, f"it raised {type(fault).__name__}"
                continue
            if value is None:
                yield name, row, None, ""
            elif (read := _read(value)) is None:
                yield name, row, None, "it returned no flag, no finite number and no pair of them"
            else:
                yield name, row, read, ""


def _read(value: Any) -> TurnCount | None:
    if isinstance(value, bool):
        return TurnCount(int(value), 1, True)
    pair = value if isinstance(value, tuple) else (value, 1)
    if len(pair) != 2 or not all(isinstance(part, int | float) and isfinite(part) for part in pair):
        return None
    return TurnCount(pair[0], pair[1], False) if pair[1] >= 0 else None
