"""A report of sixty judged games, every cell of every table, counted a second time by the oracle."""

import ast
from collections.abc import Iterator, Mapping
from math import isclose, sqrt
from pathlib import Path
from typing import Any

import pytest

from tests.evaluators.report import oracle
from tests.evaluators.report.oracle.making import GAMES, JUDGES, USES, make, report_of
from tests.evaluators.report.oracle.tables import NAMES, Oracle

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

Labels = tuple[str, ...]


def test_every_cell_of_every_table_is_what_the_oracle_counts() -> None:
    made = [make(seed) for seed in range(GAMES)]
    report = report_of(made)
    counted = Oracle([one.told for one in made], JUDGES, USES)
    tables = {table["name"]: table for table in report["tables"]}
    assert tables.keys() == NAMES
    assert [name for name, table in tables.items() if not table["rows"]] == []
    differences = [
        f"{name} {difference}"
        for name, table in tables.items()
        for difference in compared(table, counted.table(name))
    ]
    shown = "\n".join(differences[:40])
    assert not differences, f"{len(differences)} cells differ:\n{shown}"
    assert list(unadjusted(tables["raters"])) == []


def compared(table: Mapping[str, Any], rows: Mapping[Labels, Mapping[str, Any]]) -> Iterator[str]:
    """Where a table of the report and the oracle's differ, in words."""
    told = {tuple(row["labels"]): row["figures"] for row in table["rows"]}
    for labels in told.keys() ^ rows.keys():
        yield f"{labels}: a row of {'the report' if labels in told else 'the oracle'} alone"
    for labels in told.keys() & rows.keys():
        for column in told[labels].keys() ^ rows[labels].keys():
            yield f"{labels} {column}: of {'the report' if column in told[labels] else 'the oracle'} alone"
        for column in told[labels].keys() & rows[labels].keys():
            figure = told[labels][column]
            for name, value in rows[labels][column].items():
                if not _alike(figure[name], value, column):
                    yield f"{labels} {column} {name}: report {figure[name]}, oracle {value}"
            if figure["method"] == "wilson" and not _is_wilson(figure):
                yield f"{labels} {column}: no Wilson interval of {figure}"


def _alike(one: float | None, other: float | None, column: str) -> bool:
    if one is None or other is None:
        return one is other
    if column == "p, Holm":
        return True  # of the report's own p values: ``unadjusted``
    # Both draw 1,000 exchanges, of a standard error of 0.016 at most: five of their difference.
    return isclose(one, other, rel_tol=1e-9, abs_tol=0.11 if column == "p" else 1e-9)


def _is_wilson(figure: Mapping[str, Any]) -> bool:
    """Wilson's score interval with each game as one trial: the shares p that lie z deviations of their own
    from what was seen.
    """
    n, seen = figure["games"], figure["value"]
    z = 1.959963984540054
    return all(
        isclose(abs(seen - limit), z * sqrt(limit * (1 - limit) / n), abs_tol=1e-9)
        for limit in (figure["low"], figure["high"])
    )


def unadjusted(table: Mapping[str, Any]) -> Iterator[str]:
    """Pairs whose adjusted p is not Holm's of its measure's; measures with a withheld pair are left out."""
    by_measure: dict[str, list[tuple[float | None, float | None]]] = {}
    for row in table["rows"]:
        pair = tuple(row["figures"][name]["value"] for name in ("p", "p, Holm"))
        by_measure.setdefault(row["labels"][0], []).append(pair)  # type: ignore[arg-type]
    assert any(len(pairs) > 1 for pairs in by_measure.values())
    for measure, pairs in by_measure.items():
        highest = 0.0
        for rank, (p, adjusted) in enumerate(sorted(pairs) if all(p is not None for p, _ in pairs) else ()):
            assert p is not None
            assert adjusted is not None
            highest = max(highest, min(1.0, p * (len(pairs) - rank)))
            if not isclose(adjusted, highest):
                yield f"{measure}: {adjusted} for {p}, expected {highest}"


def test_the_oracle_shares_no_code_with_what_it_checks() -> None:
    # ``making`` plays the games and has them reported on; the rest reads plain dictionaries.
    for path in Path(oracle.__file__).parent.glob("*.py"):
        if path.name == "making.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {name.name.split(".")[0] for name in node.names} & OURS, path.name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").split(".")[0] not in OURS, path.name


OURS = {"agents", "app", "engine", "evaluators", "tests"}
