"""What a reader must know before any number: warnings for the first page of a report."""

from collections.abc import Iterable, Iterator
from typing import Final

from evaluators.report.builder import ReportBuilder
from evaluators.report.corrections import CORRECTED
from evaluators.report.tables import ReportTable
from evaluators.statistics.contrasts import FEW

__all__ = ["warnings"]


_DEFAULTED: Final = 0.01
"""The least share of defaulted decisions that is reported of an agent."""

_SIGNED: Final = ("difference", "minus", "change")
"""Words in the names of columns whose sign matters."""

_NAMED: Final = 5


def warnings(builder: ReportBuilder, tables: Iterable[ReportTable]) -> Iterator[str]:
    """Differences whose sign hangs on excluded games, defaults, judges that nobody corrected, small groups.
    They name agents, raters and groups.
    """
    tables = list(tables)
    if turned := list(_turned(tables)):
        yield (
            f"{len(turned)} {'difference changes its' if len(turned) == 1 else 'differences change their'} "
            f"sign with the excluded games: {_first(turned)}."
        )
    defaults = [
        f"{agent} {sum(decided.defaulted.values()):,} of {decided.decisions:,} decisions"
        for agent, decided in sorted(builder.with_excluded().decisions.items())
        if sum(decided.defaulted.values()) >= _DEFAULTED * decided.decisions > 0
    ]
    if defaults:
        yield f"Played by default, so decided by nobody: {_first(defaults)}."
    if uncorrected := list(_uncorrected(tables)):
        yield f"Not corrected by people's judgements: the verdicts of {_first(uncorrected)}."
    small = [(group, tally) for group, tally in sorted(builder.groups.items()) if tally.trials < FEW]
    if small:
        deals = " or deals" if any(tally.trials < tally.games for _, tally in small) else ""
        named = [
            f"{group} ({tally.games}{f' of {tally.trials} deals' if tally.trials < tally.games else ''})"
            for group, tally in small
        ]
        yield f"Groups of fewer than {FEW} games{deals}, whose intervals are rough: {_first(named)}."


def _uncorrected(tables: Iterable[ReportTable]) -> Iterator[str]:
    """The judges with what they judged and nobody corrected."""
    parts: dict[str, list[str]] = {}
    for table in tables:
        for row in table.rows if table.name == CORRECTED else ():
            judge, part, group, _ = row.labels
            if group == "all" and row.figures["corrected"].value is None:
                parts.setdefault(judge, []).append(part)
    for judge, of_judge in parts.items():
        yield f"{judge} ({', '.join(of_judge)})"


def _turned(tables: Iterable[ReportTable]) -> Iterator[str]:
    for table in tables:
        for row in table.rows:
            for column, figure in row.figures.items():
                second = figure.with_excluded
                if (
                    any(word in column for word in _SIGNED)
                    and second is not None
                    and (figure.value or 0) * (second.value or 0) < 0
                ):
                    yield f"{' | '.join(row.labels)} ({table.title})"


def _first(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
