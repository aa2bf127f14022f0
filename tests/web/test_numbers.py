"""The pages write a figure with the same digits as every other form of its report, however near to a half."""

import json
import random
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

from app.cli.report import _share
from evaluators.report.latex import as_latex
from evaluators.report.page import as_html
from evaluators.report.tables import QUESTIONS, Column, Report, ReportTable, TableRow, Unit
from evaluators.statistics.figures import Figure
from tests.nodejs import NODE

HERE = Path(__file__).parent
NUMBERS = HERE.parent.parent / "web" / "src" / "report" / "numbers.ts"
TABLE: list[dict[str, Any]] = json.loads((HERE / "rounding.json").read_text("utf-8"))
"""Values that are exactly or nearly half way between two, or nearly 0, and how they are shown."""


def page_of(figures: list[Figure], unit: Unit) -> list[tuple[str, str]]:
    """What the page shows of each figure, with a hyphen for the minus, and of its counts."""
    asked = {"column": {"name": "difference", "unit": unit}, "figures": [one.as_json() for one in figures]}
    script = f"""import {{ counts, shown }} from {json.dumps(NUMBERS.as_uri())};
        const {{ column, figures }} = JSON.parse(await new Response(process.stdin).text());
        console.log(JSON.stringify(figures.map((one) => [shown(one.value, column), counts(one)])));"""
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", script],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    return [(value.replace("\N{MINUS SIGN}", "-"), counts) for value, counts in json.loads(done.stdout)]


def saved(figures: list[Figure], unit: Unit) -> Report:
    rows = tuple(TableRow(("row",), {"difference": one}) for one in figures)
    columns = (Column("difference", unit),)
    table = ReportTable("contrasts", QUESTIONS, "Title", "", ("head",), columns, rows)
    return Report("R", {"games": 1, "version": "1", "intervals": "t"}, {}, (table,))


def html_of(figures: list[Figure], unit: Unit) -> list[tuple[str, str]]:
    cells = re.findall(
        r'data-high="">([^<]*)<small>([^<]*)</small>', as_html(saved(figures, unit), drawn=False)
    )
    return [(value.strip(), unescape(counts)) for value, counts in cells]


def latex_of(figures: list[Figure], unit: Unit) -> list[str]:
    return re.findall(r"^row & \$?([^$ ]*)\$? ", as_latex(saved(figures, unit)), re.MULTILINE)


def test_every_form_rounds_to_the_same_digits_and_to_no_negative_zero() -> None:
    units: tuple[Unit, ...] = ("share", "number", "count")
    for unit in units:
        known = [(one["value"], one["shown"]) for one in TABLE if one["unit"] == unit]
        assert len(known) >= 5
        figures = [Figure(value, num=value, den=100 * value, games=1000) for value, _ in known]
        digits = [shown for _, shown in known]
        assert [value for value, _ in page_of(figures, unit)] == digits
        assert latex_of(figures, unit) == digits
        assert html_of(figures, unit) == page_of(figures, unit)
    shares = [(one["value"], one["shown"]) for one in TABLE if one["unit"] == "share"]
    assert [_share(Figure(value), signed=False) for value, _ in shares] == [shown for _, shown in shares]
    assert _share(Figure(-0.0003, -0.0004, 0.0625), signed=True) == "+0.0 [0.0, 6.2]"


def test_the_page_and_what_it_saves_agree_on_any_number() -> None:
    chance = random.Random(1)
    units: tuple[Unit, ...] = ("share", "number", "count")
    for unit in units:
        values = [chance.uniform(-2, 2) for _ in range(2000)]
        # Shares of few games, and all that is an exact half.
        values += [part / games for games in range(1, 50) for part in range(games + 1)]
        values += [part / 2048 for part in range(-4096, 4096, 3)]
        figures = [Figure(value, num=1000 * value, den=value, games=1) for value in values]
        assert html_of(figures, unit) == page_of(figures, unit)
