"""Fleiss' kappa of the annotators over stage-1 intentions: of each pair, its mean over pairs, and of all
together.

Only intentions that all compared raters scored count: turns with a blank cell are left out, and cells of
unequal length are cut to the shorter one. A score of following counts as good if it is above 3.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Final

from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.labels import Figure, rounded
from evaluators.authors.run import Run, annotation_file, natural
from evaluators.ground.judgements import Judgement
from evaluators.statistics.agreement import fleiss_kappa

__all__ = ["kappa_figures"]

_ABOVE: Final = 3

_MARKS: Final[Mapping[str, Callable[[Judgement], int | None]]] = {
    "selection": lambda judgement: None if judgement.reasonable is None else int(judgement.reasonable),
    "following_think": lambda judgement: None if judgement.think is None else int(judgement.think > _ABOVE),
    "following_speak": lambda judgement: None if judgement.speak is None else int(judgement.speak > _ABOVE),
}

Marked = dict[tuple[str, str], dict[str, int]]
"""The marks, 0 or 1, by request and intention, then by rater."""


def kappa_figures(
    run: Run, games: Sequence[ConvertedGame], first_two: Sequence[str] = ()
) -> dict[str, object]:
    """The section ``kappa`` over the annotation files of these games; empty without two annotators."""
    raters = sorted(run.annotators, key=natural)
    named = {annotation_file(game.name): game for game in games}
    files = [file for file in sorted(named, key=natural) if any(file in run.annotators[r] for r in raters)]
    if len(raters) < 2 or not files:
        return {}
    games_of = {file: named[file] for file in files}
    two = [file for file in first_two if file in games_of] or files[:2]
    return {
        "files": files,
        "pooled": _section(raters, list(games_of.values())),
        "first_two_files": _section(raters, [games_of[file] for file in two]),
        "games": {file: _section(raters, [game]) for file, game in games_of.items()},
        "first_two_files_are": two,
    }


def _section(raters: Sequence[str], games: Sequence[ConvertedGame]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    means: dict[str, Figure] = {}
    together: dict[str, Figure] = {}
    pairs = list(combinations(raters, 2))
    values: dict[str, list[float | None]] = {measure: [] for measure in _MARKS}
    marked = {measure: [_marked(game, measure) for game in games] for measure in _MARKS}
    for pair in pairs:
        for measure in _MARKS:
            items = _common(marked[measure], pair)
            value = _kappa(items)
            values[measure].append(value)
            figures[f"{measure}.{pair[0]}_{pair[1]}"] = {
                "value": rounded(value),
                "items": len(items),
                "agree": sum(len(set(item)) == 1 for item in items),
                "labels": _labels(items),
            }
    for measure in _MARKS:
        means[f"{measure}.pair_mean"] = _mean(values[measure])
        items = _common(marked[measure], raters)
        together[f"{measure}.all_annotators"] = {
            "value": rounded(_kappa(items)),
            "items": len(items),
            "labels": _labels(items),
        }
    return {**figures, **means, **together}


def _marked(game: ConvertedGame, measure: str) -> Marked:
    marked: Marked = {}
    for judgement in game.judgements:
        mark = _MARKS[measure](judgement)
        if judgement.stage == "first" and mark is not None:
            marked.setdefault((judgement.request_id, judgement.intention), {})[judgement.rater] = mark
    return marked


def _common(games: Iterable[Marked], raters: Sequence[str]) -> list[tuple[int, ...]]:
    """The marks of these raters on the intentions that all of them marked."""
    wanted = set(raters)
    return [
        tuple(marks[rater] for rater in raters)
        for marked in games
        for marks in marked.values()
        if wanted <= marks.keys()
    ]


def _kappa(items: Sequence[tuple[int, ...]]) -> float | None:
    if not items:
        return None
    return fleiss_kappa([(item.count(0), item.count(1)) for item in items])


def _labels(items: Iterable[tuple[int, ...]]) -> dict[str, int]:
    counts = Counter(mark for item in items for mark in item)
    return {str(mark): counts[mark] for mark in (0, 1) if counts[mark]}


def _mean(values: Sequence[float | None]) -> Figure:
    """Mean and population deviation; undefined if the kappa of any pair is undefined."""
    known = [value for value in values if value is not None and value == value]
    if len(known) < len(values):
        return {"value": None, "sd": None}
    mean = sum(known) / len(known)
    return {
        "value": rounded(mean),
        "sd": rounded(sqrt(sum((value - mean) ** 2 for value in known) / len(known))),
    }
