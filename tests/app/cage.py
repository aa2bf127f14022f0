"""Games in which every seat thinks in words of its own, so that a leaked word names its owner."""

from collections.abc import Callable
from dataclasses import replace
from random import Random, SystemRandom
from typing import Any

from engine import rules, state
from engine.actions import Summarise
from engine.events import (
    ActionRefused,
    BeliefsFormed,
    ChoiceExplained,
    IntentionsSelected,
    Note,
    ReadingsImagined,
    ReplyUnusable,
    SpeechDrafted,
)
from engine.profile import make_profile
from engine.rules import Request
from engine.seated import SeatedAgent
from engine.state import State
from engine.terms import FULL, Viewer
from engine.thoughts import Belief, Choice, Reading
from tests.engine.games import random_action

__all__ = ["PLAYERS", "Cage", "Canaries", "caged", "play_on"]

PLAYERS = 5

Canaries = dict[str, Viewer]
"""The seat that may see each word; FULL: only the full viewer may."""


class Cage:
    """Makes up words, and remembers their owners."""

    def __init__(self, random: Random | None = None) -> None:
        """``random``: what the words are drawn from; None for words that are never the same again."""
        self._random = random or SystemRandom()
        self.owners: Canaries = {}
        self.kinds: dict[str, str] = {}
        """The type of the event that contains each word."""

    def word(self, owner: Viewer, kind: str = "") -> str:
        made = f"canary{self._random.getrandbits(64):016x}"
        self.owners[made] = owner
        self.kinds[made] = kind
        return made


def _thoughts(cage: Cage, game: State, request: Request) -> tuple[Note, ...]:
    seat = request.seat
    about = seat % PLAYERS + 1
    notes: list[Note] = [
        SpeechDrafted(
            seat, "formulation", cage.word(seat, "speech_drafted"), cage.word(seat, "speech_drafted")
        ),
        ChoiceExplained(seat, request.kind, cage.word(seat, "choice_explained")),
        ReadingsImagined(seat, (Reading(f"seat {about}", cage.word(seat, "readings_imagined")),), False),
        BeliefsFormed(seat, (_belief(cage, seat, about),)),
        ActionRefused(seat, request.id, cage.word(seat, "action_refused")),
        ReplyUnusable(seat, request.id, "formulation", cage.word(FULL, "reply_unusable")),
    ]
    if on_offer := rules.offered(game.table, game.hand(seat), request.kind):
        choice = Choice(on_offer[0], cage.word(seat, "intentions_selected"))
        notes.append(IntentionsSelected(seat, "first", (choice,), False))
    return tuple(notes)


def _belief(cage: Cage, seat: int, about: int) -> Belief:
    reasons = (cage.word(seat, "beliefs_formed"),)
    return Belief(about, None, (), 3, reasons, cage.word(seat, "beliefs_formed"))


def caged(cage: Cage, seed: int, steps: int | None, reveal: Any = "none") -> State:
    """A game in which every seat thinks, refuses and summarises in words of its own."""
    word = cage.word(FULL, "agents_seated")
    agents = [SeatedAgent("llm", word, word, {"prompts": word})] * PLAYERS
    log = rules.create(make_profile("interintent", PLAYERS, reveal=reveal), seed, agents=agents)
    game = state.fold(log)
    return play_on(cage, game, Random(seed), steps)


def play_on(
    cage: Cage,
    game: State,
    rng: Random,
    steps: int | None,
    thinks: Callable[[], bool] = lambda: True,
) -> State:
    """The same for a game that has begun: plays this many steps, or to the end."""
    while (asked := rules.pending(game)) and (steps is None or steps > 0):
        steps = None if steps is None else steps - 1
        answers: list[tuple[int, Any]] = []
        for request in asked:
            action = random_action(rng, game.table, game.hand(request.seat), request, think=False)
            if isinstance(action, Summarise):
                action = Summarise((("result", cage.word(request.seat, "round_summarised")),))
            answers.append(
                (request.seat, replace(action, thoughts=_thoughts(cage, game, request) if thinks() else ()))
            )
        state.apply(game, rules.decide(game, answers))
    return game
