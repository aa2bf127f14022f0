"""Finished games whose talk is known: played by hand for worked values, or by scripted seats."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from agents.agent import Setup
from agents.scripted.agent import ScriptedAgent
from agents.table import MemoryJournal, play
from engine.actions import Assassinate, CastVote, PlayCard, ProposeTeam, Reconsider, Speak, Summarise
from engine.chance import secret
from engine.events import BeliefsFormed, Event, IntentionsSelected, Note, SpeechDrafted
from engine.profile import make_profile
from engine.rules import Request, create, decide, pending
from engine.state import State, apply, fold
from engine.terms import Role
from engine.thoughts import Belief, Choice
from evaluators.ground.turns import Game, read_game

FIVE = tuple(map(Role, ["merlin", "percival", "servant", "assassin", "morgana"]))
"""Loyal in seats 1 to 3, evil in 4 and 5."""

Notes = Mapping[str, Sequence[Note]]
"""What is recorded before the speech of each request id."""


def chose(seat: int, first: str, final: str | None = None, *, draft: bool = True) -> tuple[Note, ...]:
    """The records of one turn: intentions by id, blanks between them; ``final`` None: not modified."""
    notes: list[Note] = [_selected(seat, "first", first)]
    if draft:
        notes.append(SpeechDrafted(seat, "formulation", f"I plan {first}", f"draft of seat {seat}"))
    if final is not None:
        notes.append(_selected(seat, "final", final))
    if draft:
        notes.append(
            SpeechDrafted(seat, "refinement", f"I now plan {final or first}", f"speech of seat {seat}")
        )
    return tuple(notes)


def _selected(seat: int, stage: Any, ids: str) -> IntentionsSelected:
    return IntentionsSelected(seat, stage, tuple(Choice(id_, f"why {id_}") for id_ in ids.split()), False)


def belief(seat: int, about: int, ids: str, role: Role | None = None, confidence: int = 3) -> BeliefsFormed:
    return BeliefsFormed(seat, (Belief(about, role, tuple(ids.split()), confidence),))


def by_hand(notes: Notes, game_id: str = "g", **rules: Any) -> Game:
    """A game of three successful quests and a missed shot, with these records; nobody else has any.

    Seats 1, 2, 3 lead; every seat speaks once a round, in three rounds.
    """
    return read_game(game_id, log_by_hand(notes, **rules))


def log_by_hand(
    notes: Notes, answer: Callable[[State, Request], Any] | None = None, **rules: Any
) -> list[Event]:
    """The log of such a game; ``answer`` may give another action for a request, or None."""
    game = fold(create(make_profile("interintent", 5, rules=rules), 1, deal=FIVE))
    while requests := pending(game):
        answers = []
        for request in requests:
            action = answer(game, request) if answer is not None else None
            answers.append((request.seat, action or _usual(game, request, tuple(notes.get(request.id, ())))))
        apply(game, decide(game, answers))
    return game.log


def _usual(game: State, request: Request, notes: tuple[Note, ...]) -> Any:
    seat = request.seat
    match request.kind:
        case "propose_team":
            size = request.team_size or 0
            return ProposeTeam(tuple(range(1, size + 1)), f"seat {seat} opens round {request.round}", notes)
        case "speak":
            return Speak(f"seat {seat} speaks in round {request.round}", notes)
        case "reconsider":
            return Reconsider(game.table.team, f"seat {seat} keeps it in round {request.round}", notes)
        case "vote":
            return CastVote(True, notes)
        case "card":
            return PlayCard(True, notes)
        case "summarise":
            return Summarise((("result", f"seat {seat} sums up round {request.round}"),), notes)
        case _:
            return Assassinate(3, notes)


@cache
def scripted_log(seed: int, players: int = 5, profile: str = "interintent") -> tuple[Event, ...]:
    """The log of a game of scripted seats."""
    agents = {s: ScriptedAgent(Setup(s, secret(seed, "agent", s))) for s in range(1, players + 1)}
    log = create(make_profile(profile, players), seed)
    return tuple(asyncio.run(play(log, agents, MemoryJournal())).log)


def scripted(seed: int, players: int = 5, profile: str = "interintent") -> Game:
    """A game of scripted seats, read."""
    return read_game(f"s{seed}", scripted_log(seed, players, profile))
