"""The actions of seats. Each action carries the thoughts that led to it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.terms import Kind, Seat

if TYPE_CHECKING:
    from engine.events import Note

__all__ = [
    "ACTION_OF",
    "APPROVE",
    "FAIL",
    "NOTHING",
    "REJECT",
    "SILENCE",
    "SUCCESS",
    "Action",
    "Assassinate",
    "CastVote",
    "Confer",
    "ForeignAction",
    "PlayCard",
    "ProposeTeam",
    "Reconsider",
    "RecordQuest",
    "RecordShot",
    "RecordVote",
    "Remark",
    "Repropose",
    "SeatAction",
    "Speak",
    "Summarise",
]


@dataclass(frozen=True, slots=True)
class ProposeTeam:
    """The leader proposes a team, and opens the discussion if there is one after proposals."""

    team: tuple[Seat, ...]
    """In any order; the event holds the team in ascending order."""
    text: str = ""
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class Speak:
    text: str
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class Reconsider:
    """The leader keeps or changes the team, and says why."""

    team: tuple[Seat, ...]
    text: str = ""
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class CastVote:
    approve: bool
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class PlayCard:
    success: bool
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class Summarise:
    """Private answers to the fixed questions, one text per question."""

    answers: tuple[tuple[str, str], ...]
    """(question, answer); questions are short names such as ``leader`` or ``suspected_evil``."""
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class Assassinate:
    target: Seat | None
    """None means that the shooter holds fire, which is legal only where the shot is offered after any
    quest."""
    thoughts: "tuple[Note, ...]" = ()


SeatAction = ProposeTeam | Speak | Reconsider | CastVote | PlayCard | Summarise | Assassinate
"""Every action of a seat at the table."""

ACTION_OF: Final[dict[Kind, type[SeatAction]]] = {
    Kind.PROPOSE_TEAM: ProposeTeam,
    Kind.SPEAK: Speak,
    Kind.RECONSIDER: Reconsider,
    Kind.VOTE: CastVote,
    Kind.CARD: PlayCard,
    Kind.SUMMARISE: Summarise,
    Kind.ASSASSINATE: Assassinate,
}
"""The action that answers each kind of request."""


# Answers without text or thoughts, made once: the fast path of ``decide`` recognises them by identity.
APPROVE: Final = CastVote(True)
REJECT: Final = CastVote(False)
SUCCESS: Final = PlayCard(True)
FAIL: Final = PlayCard(False)
SILENCE: Final = Speak("")
NOTHING: Final = Summarise(())


# Only for imports: the actions of a foreign record, which may not say which seat did what. ``decide`` accepts
# them only with ``foreign=True``.


@dataclass(frozen=True, slots=True)
class Remark:
    """A speech in a foreign record, which may come at any time."""

    text: str
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class Confer:
    """Private talk among the evil seats; only the full viewer sees it."""

    text: str
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class Repropose:
    """The leader replaces the open proposal before the vote."""

    team: tuple[Seat, ...]
    text: str = ""
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class RecordVote:
    """All ballots of a vote at once, some of them unknown. The acting seat is the leader."""

    votes: tuple[bool | None, ...]
    approved: bool
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class RecordQuest:
    """A quest with some or all cards unknown. The acting seat is the leader.

    The known cards are played before this action, each by its own seat.
    """

    fails: int | None
    """The number of fail cards of the whole team; None if not even that number is known."""
    succeeded: bool
    thoughts: "tuple[Note, ...]" = ()


@dataclass(frozen=True, slots=True)
class RecordShot:
    """A shot at an unknown seat."""

    hit: bool
    thoughts: "tuple[Note, ...]" = ()


ForeignAction = Remark | Confer | Repropose | RecordVote | RecordQuest | RecordShot
Action = SeatAction | ForeignAction
