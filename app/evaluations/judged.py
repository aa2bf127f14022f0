"""Stored judgements as evaluators take them."""

from collections.abc import Iterable
from typing import Any

from app.store.games import Row
from engine.thoughts import SelectionStage
from evaluators.judgements import Judgement

__all__ = ["judgements_from", "judges_in"]


def judgements_from(rows: Iterable[Row]) -> list[Judgement]:
    """One judgement a rater, stage and intention: what was said of selection and of following joined.

    Raters of the same name under different credentials stay apart.
    """
    joined: dict[tuple[str, str, SelectionStage, str, str], dict[str, Any]] = {}
    for row, name in _named(rows):
        key = (row["game_id"], row["request_id"], row["stage"], row["intention"], name)
        said = joined.setdefault(key, {"reasonable": None, "think": None, "speak": None})
        for field in said:
            if row[field] is not None:
                said[field] = row[field]
    return [Judgement(*key[:4], **said, rater=key[4]) for key, said in joined.items()]


def judges_in(rows: Iterable[Row]) -> frozenset[str]:
    """The raters among them that are model judges, by the names that ``judgements_from`` gives them."""
    return frozenset(name for row, name in _named(rows) if row["kind"] == "model")


def _named(rows: Iterable[Row]) -> Iterable[tuple[Row, str]]:
    names: dict[str, set[str]] = {}
    found = list(rows)
    for row in found:
        names.setdefault(row["rater"], set()).add(row["caller"])
    for row in found:
        alone = len(names[row["rater"]]) == 1
        yield row, row["rater"] if alone else f"{row['rater']} ({row['caller']})"
