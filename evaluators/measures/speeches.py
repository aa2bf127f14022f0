"""The speeches of a game, each with the public record before it.

A speech is what a seat said of its own accord, in the discussion or about its final team; defaulted and empty
ones are none. The record is the public one: it holds no card, no summary and no thought of anybody.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.events import ActionDefaulted, Event, GameCreated, ProposalOpened, TeamProposed, UtteranceMade
from engine.state import State, apply
from engine.terms import Kind, Seat
from evaluators.ground.contexts import entries_of, line_of, the_game
from evaluators.measures.statements import Finding, read_statements, sentences

__all__ = ["Speech", "SpeechKey", "answered_by", "speeches"]


class SpeechKey(NamedTuple):
    """Which speech of which game."""

    game_id: str
    request_id: str
    """The request that it answers, e.g. ``2.1.reconsider.3``."""
    turn: int
    """Utterances before it in the attempt: a foreign record may let a seat answer one request twice.
    Negative: a control speech, which no seat made."""


@dataclass(frozen=True, slots=True)
class Speech:
    """One speech, and what the rules read in it."""

    key: SpeechKey
    place: int
    """Its place in the log."""
    seat: Seat
    text: str
    findings: tuple[Finding, ...]
    """The statements that the rules found."""
    sentences: tuple[tuple[int, int], ...]
    """Where its sentences begin and end."""
    game: tuple[str, ...]
    """The rules of the game and the seats' names, in lines."""
    record: tuple[str, ...]
    """The public record before it, in lines, oldest first."""


def speeches(game_id: str, log: Sequence[Event]) -> Iterator[Speech]:
    """The speeches of a log, in order."""
    state = State()
    game: tuple[str, ...] = ()
    record: list[str] = []
    defaulted: set[str] = set()
    round_ = attempt = 0
    for place, event in enumerate(log):
        if isinstance(event, GameCreated):
            game = tuple(the_game(event.profile, event.names))
        elif isinstance(event, ActionDefaulted):
            defaulted.add(event.request_id)
        elif isinstance(event, ProposalOpened):
            round_, attempt = event.round, event.attempt
        elif isinstance(event, UtteranceMade):
            request_id = answered_by(event, log[place - 1])
            if any(c.isalnum() for c in event.text) and request_id not in defaulted:
                yield Speech(
                    SpeechKey(game_id, request_id, event.turn),
                    place,
                    event.seat,
                    event.text,
                    read_statements(event.text, event.seat, state.table),
                    sentences(event.text, state.table.names),
                    game,
                    tuple(record),
                )
        if event.seen_by == "public":
            record += map(line_of, entries_of(event, round_, attempt))
        apply(state, (event,))


def answered_by(event: UtteranceMade, before: Event | None) -> str:
    """The request that an utterance answers; ``before``: the event that stands right before it in the log."""
    if event.phase == "reconsider":
        kind = Kind.RECONSIDER
    elif isinstance(before, TeamProposed) and before.leader == event.seat:
        kind = Kind.PROPOSE_TEAM
    else:
        kind = Kind.SPEAK
    return f"{event.round}.{event.attempt}.{kind}.{event.seat}"
