"""The table of a report with what the rule judge refuses, intention by intention."""

from collections import Counter
from collections.abc import Callable
from typing import Final, get_args

from engine.intentions import IntentionId
from evaluators.ground.turns import Game
from evaluators.judges.rules import Rule, ruled
from evaluators.report.counted import CountedColumn, counted_table
from evaluators.report.tables import OURS, ReportTable
from evaluators.statistics.figures import FigureKey, FigureTally

__all__ = ["RULINGS", "count_rulings", "rulings"]

RULINGS: Final = "rulings"

_RULES: Final[tuple[Rule, ...]] = get_args(Rule)


def count_rulings(game: Game, count: Callable[..., None]) -> None:
    """Counts the selections of the current game, and those that the rules refuse."""
    selected: Counter[IntentionId] = Counter()
    refused: Counter[tuple[IntentionId, Rule]] = Counter()
    for ruling in ruled(game):
        selected[ruling.intention] += 1
        if ruling.rule is not None:
            refused[ruling.intention, ruling.rule] += 1
    for group, label, of in (
        ("all", "all", list(selected)),
        *(("intention", intention, [intention]) for intention in sorted(selected)),
    ):
        n = sum(selected[intention] for intention in of)
        by_rule = {rule: sum(refused[intention, rule] for intention in of) for rule in _RULES}
        for column, counted in (("refused", sum(by_rule.values())), *by_rule.items()):
            if n:
                count(FigureKey(RULINGS, "", group, label, column), (counted, n), n)


def rulings(tally: FigureTally) -> ReportTable:
    """How many selections of each intention the rules refuse, and by which rule."""
    return counted_table(
        tally,
        RULINGS,
        OURS,
        "Selections that the rules refuse",
        "Of all selections (first ones, and final ones that modification changed): those that the role may "
        "not select, that refer to a fact which the record does not have, or that contradict another one "
        "selected with them. A lower bound of what is unreasonable: what the rules do not refuse they leave "
        "undecided.",
        {"group": "by", "label": "group"},
        [CountedColumn(column) for column in ("refused", *_RULES)],
        empty="no items: imported games and plain bots hold no thoughts",
    )
