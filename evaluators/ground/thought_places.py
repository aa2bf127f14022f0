"""Where in a game a seat thought: the round, attempt and turn of each thought, and the request it answered.

A log holds a seat's thoughts right before the action to which they belong, so they need no place of their
own. Whoever takes single events out of a log does; exports write the places beside the thoughts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from engine.events import (
    AssassinationDeclined,
    AssassinationMade,
    CardPlayed,
    Event,
    ProposalOpened,
    RolesDealt,
    RoundSummarised,
    SelectionPrepared,
    TeamConfirmed,
    TeamProposed,
    Thought,
    UtteranceMade,
    VoteCast,
    type_name,
)
from engine.terms import Kind, Seat

__all__ = ["PLACED", "ThoughtPlace", "thought_places", "without_place"]


class ThoughtPlace(NamedTuple):
    """Where in a game a thought was recorded."""

    round: int
    attempt: int
    turn: int
    """Utterances made before it in the attempt."""
    request_id: str | None
    """The request that the seat answered next; None: it answered none, since the game was cancelled."""


_PLACED: Final = (*get_args(Thought), SelectionPrepared)

PLACED: Final = frozenset(type_name(kind.__new__(kind)) for kind in _PLACED)
"""The types of events, by their names, that ``thought_places`` gives a place."""


def thought_places(log: Sequence[Event]) -> Mapping[int, ThoughtPlace]:
    """The place of each thought in a log of our own, by its index. Foreign records hold no thoughts."""
    found: dict[int, ThoughtPlace] = {}
    waiting: dict[Seat, list[int]] = {}
    round_ = attempt = turn = 0
    shooter: Seat | None = None
    for index, event in enumerate(log):
        if isinstance(event, _PLACED):
            found[index] = ThoughtPlace(round_, attempt, turn, None)
            waiting.setdefault(event.seat, []).append(index)
            continue
        if isinstance(event, ProposalOpened):
            round_, attempt, turn = event.round, event.attempt, 0
        elif isinstance(event, RolesDealt):
            shooter = event.shooter
        elif (answer := _answer(event, shooter)) is not None:
            kind, seat = answer
            for thought in waiting.pop(seat, ()):
                place = found[thought]
                found[thought] = place._replace(request_id=f"{place.round}.{place.attempt}.{kind}.{seat}")
            turn += isinstance(event, UtteranceMade)
    return found


def _answer(event: Event, shooter: Seat | None) -> tuple[Kind, Seat] | None:
    """What was asked, and of whom, where this event is the first one of an answer."""
    match event:
        case UtteranceMade():
            return Kind.SPEAK, event.seat
        case VoteCast():
            return Kind.VOTE, event.seat
        case TeamProposed():
            return Kind.PROPOSE_TEAM, event.leader
        case CardPlayed():
            return Kind.CARD, event.seat
        case RoundSummarised():
            return Kind.SUMMARISE, event.seat
        case TeamConfirmed():
            return Kind.RECONSIDER, event.leader
        case AssassinationMade():
            return Kind.ASSASSINATE, event.assassin
        case AssassinationDeclined() if shooter is not None:
            return Kind.ASSASSINATE, shooter
    return None


def without_place(type_: str, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of an exported event without the place that the export added."""
    if type_ in PLACED:
        for name in ThoughtPlace._fields:
            values.pop(name, None)
    return values
