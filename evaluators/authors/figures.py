"""All figures of a run, in the shape of ``expected.json``, and their comparison with the expected ones."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Final

from evaluators.authors.annotators import kappa_figures
from evaluators.authors.answers import answer_figures
from evaluators.authors.conversion import ConvertedGame
from evaluators.authors.counting import (
    following_histograms,
    guess_items,
    play_figures,
    selection_figures,
    which_side_higher,
)
from evaluators.authors.run import Run

__all__ = ["NOT_KNOWN", "Compared", "compare", "figures"]


def figures(run: Run, games: Sequence[ConvertedGame], first_two: Sequence[str] = ()) -> dict[str, object]:
    """Every figure of these games of the run, pooled and game by game.

    Numbers are rounded to six places; None stands where nothing could be counted. ``first_two`` names the
    annotation files for the kappas over two games; if it is empty, these are the first two files.
    """
    answers = answer_figures(run, games)
    return {
        "pooled": _of(games) | {"f1": answers[None]},
        "games": {game.name: _of([game]) | {"f1": answers[game.name]} for game in games},
        "kappa": kappa_figures(run, games, first_two),
        "guess_items": guess_items(games),
    }


def _of(games: Sequence[ConvertedGame]) -> dict[str, object]:
    return {
        "figures": {**play_figures(games), **selection_figures(games)},
        "following_histograms": {"counts": following_histograms(games)},
        "which_side_higher": {name: {"counts": counts} for name, counts in which_side_higher(games).items()},
    }


NOT_KNOWN: Final = "not known"
"""Stands for a figure that we have no rule for."""

# Keys whose values are words about figures.
_WORDS: Final = frozenset({"about", "definition", "f1_definition"})

_SLACK: Final = 1.05e-6
"""One unit of the sixth place: both sides are rounded there."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure: all its numbers, as expected and as found."""

    name: str
    """The keys that lead to the figure, joined by ``/``."""
    expected: Any
    found: Any
    agrees: bool


def compare(expected: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[Compared]:
    """Every figure that ``expected`` names, in its order. A figure that ``found`` lacks does not agree.

    Counts and texts must be equal, lists must hold the same in any order, other numbers agree to six places.
    If neither side counted anything, an undefined number may be null, NaN or 0 on either side. A count by
    label or score that one side leaves out is 0.
    """
    for key, inner in expected.items():
        if key not in _WORDS:
            yield from _compare((key,), inner, found.get(key, NOT_KNOWN))


def _compare(keys: tuple[str, ...], expected: Any, found: Any) -> Iterator[Compared]:
    if isinstance(expected, Mapping) and not _is_figure(expected):
        for key, inner in expected.items():
            if key not in _WORDS:
                below = found.get(key, NOT_KNOWN) if isinstance(found, Mapping) else NOT_KNOWN
                yield from _compare((*keys, key), inner, below)
        return
    yield Compared("/".join(keys), _numbers(expected), found, _agrees(_numbers(expected), found))


def _is_figure(value: Mapping[str, Any]) -> bool:
    return "value" in value or not any(isinstance(inner, Mapping) for inner in value.values())


def _numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: inner for key, inner in value.items() if key not in _WORDS}
    return value


def _agrees(expected: Any, found: Any) -> bool:
    if not isinstance(expected, Mapping):
        return _same(expected, found)
    if not isinstance(found, Mapping):
        return False
    if expected and all(key.isdigit() for key in expected):
        return all(expected.get(key, 0) == found.get(key, 0) for key in expected.keys() | found.keys())
    empty = _nothing_counted(expected) and _nothing_counted(found)
    return all(
        key in found
        and (_agrees(inner, found[key]) or (empty and _undefined(inner) and _undefined(found[key])))
        for key, inner in expected.items()
    )


def _nothing_counted(figure: Mapping[str, Any]) -> bool:
    return any(figure.get(key) == 0 for key in ("den", "guessed", "selected", "items"))


def _undefined(value: Any) -> bool:
    return value is None or value == 0 or (isinstance(value, float) and isnan(value))


def _same(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int) and isinstance(found, int):
        return expected == found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return abs(expected - found) <= _SLACK or (isnan(expected) and isnan(found))
    if isinstance(expected, float) and isnan(expected):
        return found is None
    if isinstance(expected, list) and isinstance(found, list):
        return sorted(map(str, expected)) == sorted(map(str, found))
    return bool(expected == found)
