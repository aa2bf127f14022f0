"""Seats, roles, intentions and figures as the authors' files write them."""

import re
from collections.abc import Mapping
from math import isnan
from typing import Final

from engine.intentions import BY_ID, IntentionId
from engine.terms import Role, Seat

__all__ = [
    "DIGITS",
    "ROLE_NAMES",
    "Figure",
    "Value",
    "canonical_label",
    "plain",
    "released_label",
    "role_of",
    "rounded",
    "seat_name",
    "seat_of",
    "share",
]

ROLE_NAMES: Final[Mapping[Role, str]] = {role: role.value.capitalize() for role in Role}
"""The authors' names of the roles."""

# The labels for which the program does not use the published category name (prompts.py of the release).
_OTHER_WORDING: Final[Mapping[IntentionId, str]] = {
    "concern_failed_quest_member": "Express concerns about a player from a failed quest team and suggest "
    "to not include them in current team",
    "counter_not_on_team": "Counter the team proposal because you are good and not part of the team",
    "counter_evil_on_team": "Counter the team proposal because you think a player on the team is evil",
}

_NOT_A_LETTER: Final = re.compile(r"[^a-zA-Z\s]")
_SEAT: Final = re.compile(r"\s*player\s*_?(\d{1,2})(?:\s*\(.*\))?[\s.]*", re.IGNORECASE)


def released_label(intention: IntentionId) -> str:
    """The label as the program offers it: its own wording, a typographic apostrophe, a full stop."""
    wording = _OTHER_WORDING.get(intention, BY_ID[intention].label)
    return wording.replace("'", "\u2019") + "."


def plain(label: str) -> str:
    """The label in lower case, with letters and blanks only, as the authors' scripts compare labels."""
    return _NOT_A_LETTER.sub("", label).lower()


def canonical_label(intention: IntentionId) -> str:
    """The plain published name, to which the released ``similar_intent_map`` maps the label."""
    return plain(BY_ID[intention].label)


def seat_name(seat: Seat) -> str:
    return f"Player{seat}"


def seat_of(name: str) -> Seat | None:
    """The seat named by a text such as ``Player3``, `` Player3`` or ``Player3(Merlin)``; None for other
    texts.
    """
    match = _SEAT.fullmatch(name)
    return int(match[1]) if match else None


def role_of(name: str) -> Role | None:
    """The role that a name means, in upper or lower case; None if we have no such role."""
    word = name.strip().lower()
    word = {"loyal servant": "servant", "loyal servant of arthur": "servant"}.get(word, word)
    return next((role for role in Role if role.value == word), None)


Value = int | float | str | None | list[str] | Mapping[str, int]
Figure = dict[str, Value]

DIGITS = 6
"""Decimal places in the authors' files."""


def rounded(value: float | None) -> float | None:
    """The value rounded as in the authors' files; None if it is undefined."""
    return None if value is None or isnan(value) else round(value, DIGITS)


def share(num: int, den: int) -> Figure:
    """``num`` of ``den``; the value is None if ``den`` is 0."""
    return {"num": num, "den": den, "value": rounded(num / den) if den else None}
