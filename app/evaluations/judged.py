"""Stored judgements as evaluators take them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from app.evaluations.schemas import RaterKind
from app.store.rows import JudgementRow, StatementsRow
from engine.thoughts import SelectionStage
from evaluators.ground.judgements import Judgement

__all__ = ["judgements_from", "judges_in", "kinds_in", "named"]

R = TypeVar("R", JudgementRow, StatementsRow)


def judgements_from(
    rows: Iterable[JudgementRow], shared_names: Collection[str] | None = None
) -> list[Judgement]:
    """One judgement a rater, stage and intention: what was said of selection and of following joined.

    Raters of the same name under different credentials stay apart. ``shared_names``: the names that
    several credentials bear; None: as these rows tell it.
    """
    joined: dict[tuple[str, str, SelectionStage, str, str], dict[str, Any]] = {}
    for row, name in named(rows, shared_names):
        key = (row.game_id, row.request_id, row.stage, row.intention, name)
        said = joined.setdefault(key, {"reasonable": None, "think": None, "speak": None})
        for field in said:
            if getattr(row, field) is not None:
                said[field] = getattr(row, field)
    return [Judgement(*key[:4], **said, rater=key[4]) for key, said in joined.items()]


def kinds_in(
    rows: Iterable[JudgementRow], shared_names: Collection[str] | None = None
) -> dict[str, RaterKind]:
    """What each rater is, by the names that ``judgements_from`` gives them. One that said a thing as a
    model or a program is none of the people, whatever else it said.
    """
    found: dict[str, RaterKind] = {}
    for row, name in named(rows, shared_names):
        if _PLACE[row.kind] >= _PLACE[found.get(name, "human")]:
            found[name] = row.kind
    return found


def judges_in(rows: Iterable[JudgementRow], shared_names: Collection[str] | None = None) -> frozenset[str]:
    """The raters among them that are no people: models and programs. Only people's words are pooled, and
    agreement with people is asked of everybody else.
    """
    return frozenset(name for name, kind in kinds_in(rows, shared_names).items() if kind != "human")


_PLACE: Final[Mapping[RaterKind, int]] = {"human": 0, "program": 1, "model": 2}


def named(rows: Iterable[R], shared_names: Collection[str] | None) -> Iterable[tuple[R, str]]:
    """Rows beside their rater's name, with the credential where several bear it."""
    found = list(rows)
    if shared_names is None:
        callers: dict[str, set[str]] = {}
        for row in found:
            callers.setdefault(row.rater, set()).add(row.caller)
        shared_names = {name for name, held in callers.items() if len(held) > 1}
    for row in found:
        name = row.rater
        yield row, f"{name} ({row.caller})" if name in shared_names else name
