"""The terms of the game. The wire and the database carry their values."""

from enum import StrEnum
from typing import Final, Literal

__all__ = [
    "EVIL_ROLES",
    "FULL",
    "PUBLIC",
    "SIDES",
    "Ending",
    "Kind",
    "Phase",
    "Role",
    "Seat",
    "SeenBy",
    "Side",
    "Viewer",
    "side_of",
]

Seat = int
"""A numbered place at the table, 1..n."""

Viewer = int
"""A viewer: ``PUBLIC``, ``FULL``, or a seat's own number."""

PUBLIC: Final = 0
FULL: Final = -1

SeenBy = Literal["public", "seat", "full"]
"""The audience of an event; ``seat`` means the event's seat and the full viewer."""


class _Word(StrEnum):
    # Enum's own __hash__ is a slow Python function; str's is fast, and every step looks terms up in dicts.
    __hash__ = str.__hash__


class Side(_Word):
    LOYAL = "loyal"
    EVIL = "evil"


class Role(_Word):
    MERLIN = "merlin"
    PERCIVAL = "percival"
    SERVANT = "servant"
    ASSASSIN = "assassin"
    MORGANA = "morgana"
    MORDRED = "mordred"
    OBERON = "oberon"
    MINION = "minion"


EVIL_ROLES: Final = frozenset({Role.ASSASSIN, Role.MORGANA, Role.MORDRED, Role.OBERON, Role.MINION})


SIDES: Final = {role: Side.EVIL if role in EVIL_ROLES else Side.LOYAL for role in Role}
"""The side that each role plays for. Loops over items and events look it up here, without a call."""


def side_of(role: Role) -> Side:
    """The side a role plays for."""
    return SIDES[role]


class Phase(_Word):
    """The phase of the game: what the table waits for."""

    PROPOSE = "propose"
    DISCUSS = "discuss"
    RECONSIDER = "reconsider"
    VOTE = "vote"
    QUEST = "quest"
    SUMMARY = "summary"
    ASSASSINATE = "assassinate"
    OVER = "over"


class Kind(_Word):
    """The kind of a request, which is the third part of its id."""

    PROPOSE_TEAM = "propose_team"
    SPEAK = "speak"
    RECONSIDER = "reconsider"
    VOTE = "vote"
    CARD = "card"
    SUMMARISE = "summarise"
    ASSASSINATE = "assassinate"


class Ending(_Word):
    """The reason why the game is over."""

    THREE_QUESTS_FAILED = "three_quests_failed"
    THREE_QUESTS_SUCCEEDED = "three_quests_succeeded"
    MERLIN_ASSASSINATED = "merlin_assassinated"
    MERLIN_SURVIVED = "merlin_survived"
    MAX_REJECTIONS = "max_rejections"
