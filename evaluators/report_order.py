"""The order of rows: whole before parts, sides and roles as the rules have them, numbers as such."""

from collections.abc import Iterable
from typing import Final

from engine.intentions import CATALOGUE
from engine.terms import Role, Side
from evaluators.correcting import ASPECTS
from evaluators.following import PARTS

__all__ = ["place"]

_ORDER: Final[dict[str, int]] = {
    word: place
    for place, word in enumerate(
        (
            "all",
            "both",
            *(f"{part}, {stage}" for part in PARTS for stage in ("both stages", "first", "final")),
            *ASPECTS,
            "part",
            "stage",
            "first",
            "final",
            "side",
            *(side.value for side in (Side.LOYAL, Side.EVIL)),
            "role",
            *(role.value for role in Role),
            "round",
            "category",
            "changed",
            "unchanged",
            *(one.id for one in CATALOGUE),
        )
    )
}


def place(words: Iterable[str]) -> tuple[tuple[int, int, str], ...]:
    """Sorts rows by their labels."""
    return tuple(map(_place, words))


def _place(word: str) -> tuple[int, int, str]:
    if word.isdigit():
        return 1, int(word), ""
    return (0, _ORDER[word], "") if word in _ORDER else (2, 0, word)
