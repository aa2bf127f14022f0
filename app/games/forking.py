"""Forks of a game: where its log may be cut so that the game can continue, and what a fork takes over."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.base.errors import InvalidRequest
from app.games.schemas import ForkGame
from app.store.rows import GameRow
from engine.events import (
    ActionDefaulted,
    AgentsSeated,
    AssassinationDeclined,
    AssassinationMade,
    AssassinationOpened,
    CardPlayed,
    Event,
    GameCreated,
    GameEnded,
    ProposalOpened,
    QuestResolved,
    RoundSummarised,
    TeamConfirmed,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    VotesRevealed,
)
from engine.state import State, apply
from engine.terms import Kind, Phase, Seat

__all__ = [
    "AnsweredRequest",
    "answers_in",
    "continued",
    "cut_after_phase",
    "cut_after_request",
    "cut_before_default",
    "fork_spec",
    "is_public",
    "seated_last",
]

_CONSEQUENCES = (VotesRevealed, QuestResolved, ProposalOpened, AssassinationOpened, GameEnded)

_KIND = {
    TeamProposed: Kind.PROPOSE_TEAM,
    UtteranceMade: Kind.SPEAK,
    TeamConfirmed: Kind.RECONSIDER,
    VoteCast: Kind.VOTE,
    CardPlayed: Kind.CARD,
    RoundSummarised: Kind.SUMMARISE,
    AssassinationMade: Kind.ASSASSINATE,
    AssassinationDeclined: Kind.ASSASSINATE,
}


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """One answer in a log, and the point after it at which the log may be cut."""

    request_id: str
    round: int
    attempt: int
    phase: Phase
    cut: int
    """Number of events up to and including the consequences of the answer."""


def answers_in(log: Sequence[Event]) -> Iterator[AnsweredRequest]:
    """Every answer of a game's own log, in order."""
    state = State()
    index = 0
    while index < len(log):
        event = log[index]
        kind = _KIND.get(type(event))
        if kind is None:
            apply(state, (event,))
            index += 1
            continue
        table = state.table
        phase = table.phase
        cut = index + 1
        # An utterance right after a proposal or a reconsideration is its own text: every other one
        # has its speaker's thoughts, or another answer, before it or opens a discussion it follows.
        if isinstance(event, TeamProposed | TeamConfirmed) and cut < len(log):
            follower = log[cut]
            cut += isinstance(follower, UtteranceMade) and follower.seat == event.leader
        while cut < len(log) and isinstance(log[cut], _CONSEQUENCES):
            cut += 1
        seat = _seat(event, state)
        yield AnsweredRequest(
            f"{table.round}.{table.attempt}.{kind}.{seat}", table.round, table.attempt, phase, cut
        )
        apply(state, log[index:cut])
        index = cut


def _seat(event: Event, state: State) -> Seat:
    if isinstance(event, TeamProposed | TeamConfirmed):
        return event.leader
    if isinstance(event, AssassinationMade):
        return event.assassin
    if isinstance(event, AssassinationDeclined):
        return state.shooter or 0
    return event.seat  # type: ignore[union-attr]


def cut_after_request(log: Sequence[Event], request_id: str) -> int:
    """The number of events to copy so that this request has its answer. Raises InvalidRequest if it has
    none.
    """
    for answered in answers_in(log):
        if answered.request_id == request_id:
            return answered.cut
    raise InvalidRequest(
        "this game has no answer to that request; request ids look like 2.1.vote.3",
        "/after/request",
        "unknown",
    )


def cut_after_phase(log: Sequence[Event], round_: int, attempt: int, phase: Phase) -> int:
    """The number of events to copy up to the end of that phase. Raises InvalidRequest if nothing was
    answered in it.
    """
    cut = None
    for answered in answers_in(log):
        if (answered.round, answered.attempt, answered.phase) == (round_, attempt, phase):
            cut = answered.cut
    if cut is None:
        raise InvalidRequest(
            f"nothing was answered in round {round_}, attempt {attempt}, phase {phase}",
            "/after/phase",
            "unknown",
        )
    return cut


def seated_last(log: Sequence[Event]) -> AgentsSeated | None:
    """The last event of a log that records the agents; None if there is none."""
    return next((event for event in reversed(log) if isinstance(event, AgentsSeated)), None)


def is_public(row: GameRow, log: Sequence[Event]) -> bool:
    """Whether everybody may see the whole log: the game has finished, and its end reveals all."""
    created = log[0]
    assert isinstance(created, GameCreated)
    return row.status == "finished" and created.profile.reveal == "all"


def fork_spec(game_id: str, source: Mapping[str, Any], fork: ForkGame, *, is_own: bool) -> dict[str, Any]:
    """The spec of a fork's batch: the models and budget of its source, with the request's changes.

    An owner's fork with the same agents repeats its source, and does not pay again for what its source has
    paid. A stranger's fork pays for itself, and the source can be deleted before the fork is over.
    """
    given = fork.model_dump(mode="json", exclude_none=True)
    same = is_own and fork.seats is None and not given["models"]
    return {
        "origin": "fork",
        "repeats": [game_id, *(source.get("repeats") or ())] if same else [],
        "models": {**(source.get("models") or {}), **given["models"]},
        "budget": given.get("budget") or source.get("budget"),
        "on_unusable": given.get("on_unusable") or source.get("on_unusable"),
        "deadlines_s": given.get("deadlines_s") or source.get("deadlines_s") or {},
    }


def continued(past: Sequence[Event], agents: AgentsSeated) -> list[Event]:
    """The log of a game that these agents go on with."""
    return list(past) if agents == seated_last(past) else [*past, agents]


def cut_before_default(log: Sequence[Event], seats: Collection[Seat]) -> int:
    """The number of events to copy so that the game goes on where the default was first played for one of
    these seats; 0 if nothing was answered before, or if no default was played for them.
    """
    defaults = (
        event.request_id
        for event in log
        if isinstance(event, ActionDefaulted) and event.seat in seats and event.cause != "cancelled"
    )
    spoilt = next(defaults, None)
    cut = 0
    for answered in answers_in(log):
        if answered.request_id == spoilt:
            return cut
        cut = answered.cut
    return 0
