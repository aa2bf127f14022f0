"""The rules of the whole game, as pure functions: the requests, the legal actions, and their consequences.

    log = create(profile, seed)
    state = fold(log)
    while requests := pending(state):
        answers = [(request.seat, choose(observe(state, request))) for request in requests]
        apply(state, decide(state, answers))

``decide`` changes nothing, and ``apply`` refuses nothing that ``decide`` gave. Whether an action is legal
depends only on what its seat sees, so a refusal reveals nothing new to the seat.
"""

from engine.rules.asking import Answers, Request, asked, offered, pending, turn_of
from engine.rules.checking import check, check_note, default, legal
from engine.rules.creating import create, usual_names
from engine.rules.deciding import cancel, decide
from engine.rules.effects import opens_next

__all__ = [
    "Answers",
    "Request",
    "asked",
    "cancel",
    "check",
    "check_note",
    "create",
    "decide",
    "default",
    "legal",
    "offered",
    "opens_next",
    "pending",
    "turn_of",
    "usual_names",
]
