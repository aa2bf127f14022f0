"""What fits a request's ``thoughts_schema`` is kept, and what is dropped does not fit it. ``schema`` does
the same for the action.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from app.protocol.actions import (
    Action,
    action_schema,
    engine_action,
    legal_actions,
    read_action,
    read_thoughts,
    shown_action,
    thoughts_schema,
)
from app.protocol.messages import Asked
from engine.errors import IllegalAction, InvalidAction
from engine.events import Thought
from engine.intentions import BY_ID
from engine.profile import make_profile
from engine.rules import Request, check, check_note, create, decide, default, legal, offered, pending
from engine.state import Hand, State, Table, apply, fold
from engine.terms import Kind, Role

TEXTS = ["", "Because.", "a\tb\nc", "a\r\nb", "\r\n", "ä🗡", "x" * 64, "x" * 65, "x" * 4000, "x" * 4001]
NO_TEXTS = ["\0", "a\rb", "\r\r\n", "\x1f", "\x7f", "\b", 7, None, ["x"]]


def states(chance: random.Random) -> Iterator[tuple[State, Request]]:
    """Moments of games of every size, each with a request."""
    for players in range(5, 11):
        profile = make_profile(chance.choice(["interintent", "official"]), players)
        state = fold(create(profile, chance.randrange(1 << 30)))
        for _ in range(60):
            if state.table.over:
                break
            for request in pending(state):
                yield state, request
            answers: list[Any] = []
            for request in pending(state):
                ways = legal(state.table, state.hand(request.seat)) or (default(state.table, request),)
                answers.append((request.seat, chance.choice(ways)))
            apply(state, decide(state, answers))


class Guesser:
    """Thoughts that are right, or wrong in one of many ways."""

    def __init__(self, chance: random.Random, table: Table, hand: Hand, menu: Any) -> None:
        self._chance = chance
        self._table = table
        self._own = hand.seat
        self._menu = [*(menu or ()), *(["fly"] if chance.random() < 0.1 else []), *list(BY_ID)[:3]]
        self._wrong = chance.choice([0.0, 0.0, 0.02, 0.1])

    def _one(self, right: list[Any], wrong: list[Any]) -> Any:
        return self._chance.choice(wrong if self._chance.random() < self._wrong else right)

    def _text(self, longest: int = 4000) -> Any:
        return self._one([text for text in TEXTS if len(text) <= longest], [*NO_TEXTS, "x" * (longest + 1)])

    def _some(self, make: Any, most: int) -> Any:
        count = self._one([0, 1, 1, 2, 3], [most, most + 1])
        return self._one([[make() for _ in range(count)]], [None, "x", {}])

    def _belief(self) -> Any:
        seats: list[Any] = [seat for seat in range(1, self._table.players + 1) if seat != self._own]
        found = {
            "about": self._one([*seats, float(seats[0])], [self._own, 0, 11, True, "2", 1.5, None]),
            "role": self._one([*self._table.profile.roles, None], [*Role, "wizard", 3]),
            "intentions": self._some(lambda: self._one(list(BY_ID), ["fly", 1, None]), 10),
            "confidence": self._one([0, 3, 5, 2.0], [-1, 6, 5.5, True, "3", None, 10**40]),
            "snippets": self._some(self._text, 20),
            "reasoning": self._text(),
        }
        return self._cut(found, "about")

    def _cut(self, found: dict[str, Any], *needed: str) -> Any:
        for name in list(found):
            often = self._wrong / 3 if name in needed else 0.3
            if self._chance.random() < often:
                del found[name]
        if self._chance.random() < self._wrong / 3:
            found["mood"] = 1
        return self._one([found], [None, 7, [], "x"]) if self._chance.random() < 0.05 else found

    def _thought(self) -> Any:
        kinds = [
            "beliefs_formed",
            "intentions_selected",
            "speech_drafted",
            "readings_imagined",
            "choice_explained",
        ]
        kind = self._one(kinds, ["vote_cast", None, 3])
        seat = self._one([self._own, None, float(self._own)], [self._own % 5 + 1, 0, True, "1"])
        found: dict[str, Any] = {"type": kind, "seat": seat}
        match kind:
            case "beliefs_formed":
                found["beliefs"] = self._some(self._belief, 10)
            case "intentions_selected":
                found["stage"] = self._one(["first", "final"], ["formulation", None])
                found["intentions"] = self._some(
                    lambda: self._cut({"id": self._chance.choice(self._menu), "reason": self._text()}, "id"),
                    20,
                )
                found["changed"] = self._one([True, False], [None, 1])
            case "speech_drafted":
                found |= {"stage": self._one(["formulation", "refinement"], ["final"])}
                found |= {"think": self._text(), "speak": self._text()}
            case "readings_imagined":
                found["readings"] = self._some(
                    lambda: self._cut({"by": self._text(64), "text": self._text()}, "by", "text"), 20
                )
                found["reveals_role"] = self._one([True, False], [None, 0])
            case "choice_explained":
                found |= {"about": self._one(["vote", "speak", None], ["think", 1]), "text": self._text()}
        return self._cut(found, *(name for name in found if name not in ("seat", "changed", "about")))

    def thoughts(self) -> Any:
        return self._some(self._thought, 20)


@pytest.mark.parametrize("seed", range(2))
def test_exactly_the_thoughts_that_fit_the_schema_are_kept(seed: int) -> None:
    chance = random.Random(seed)
    fit = left_out = 0
    for state, request in states(chance):
        if chance.random() < 0.95:
            continue
        table, hand = state.table, state.hand(request.seat)
        schema = thoughts_schema(table, hand, request)
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)

        def check_one(thought: Thought, pointer: str, table: Table = table, hand: Hand = hand) -> None:
            check_note(table, hand, thought, pointer)

        for _ in range(4):
            thoughts = Guesser(chance, table, hand, offered(table, hand, request.kind)).thoughts()
            faults = [error.json_path for error in validator.iter_errors(thoughts)]
            refused = read_thoughts(request, thoughts, check_one).refused
            assert bool(refused) == bool(faults), (thoughts, refused, faults)
            fit += not faults
            left_out += bool(faults)
    assert min(fit, left_out) > 50


@pytest.mark.parametrize("seed", range(2))
def test_exactly_the_actions_that_fit_the_schema_are_legal(seed: int) -> None:
    chance = random.Random(seed)
    fit = wrong = 0
    for state, request in states(chance):
        table, hand = state.table, state.hand(request.seat)
        validator = Draft202012Validator(action_schema(table, hand, request))
        for _ in range(4):
            action = guessed_action(chance, table, hand)
            fits = validator.is_valid(action)
            assert fits == allowed(table, hand, request, action), (request, action)
            fit += fits
            wrong += not fits
    assert min(fit, wrong) > 100


def guessed_action(chance: random.Random, table: Table, hand: Hand) -> Any:
    actions = legal_actions(table, hand) or [{"text": ""}, {"answers": {}}]
    action = dict(chance.choice(actions))
    texts = [*TEXTS, *NO_TEXTS]
    if chance.random() < 0.5:
        action["text"] = chance.choice(texts)
    if "answers" in action:
        names: list[Any] = ["a", "b\nc", "x" * 64, "x" * 65, "", "\0", "b\x7f"]
        action["answers"] = {
            chance.choice(names): chance.choice(texts) for _ in range(chance.choice([0, 1, 2]))
        }
    if "team" in action and chance.random() < 0.3:
        action["team"] = [chance.choice([1, 2.0, 5, 0, 11, True, "1"]) for _ in action["team"]]
    if chance.random() < 0.05:
        action["mood"] = 1
    return action


def allowed(table: Table, hand: Hand, request: Request, action: Any) -> bool:
    try:
        read: Action = read_action(request.kind, action)
        check(table, hand, engine_action(read))
    except (InvalidAction, IllegalAction):
        return False
    return True


@pytest.mark.parametrize("deadline", [None, "2026-03-01T12:02:00.000Z"])
def test_the_frame_of_a_request_is_what_the_model_says(deadline: str | None) -> None:
    kinds = set()
    for state, request in states(random.Random(5)):
        table, hand = state.table, state.hand(request.seat)
        menu = offered(table, hand, request.kind)
        shown = Asked(
            request_id=request.id,
            kind=request.kind,
            team_size=request.team_size,
            menu=None if menu is None else list(menu),
            deadline=deadline,
            ttl_ms=None if deadline is None else 5,
            schema_=action_schema(table, hand, request),
            thoughts_schema=thoughts_schema(table, hand, request),
            legal=legal_actions(table, hand),
            default=shown_action(default(table, request)),
            attempts_left=3,
        )
        if request.kind not in kinds:
            assert shown.as_frame() == shown.model_dump_json()
            kinds.add(request.kind)
    assert kinds >= {Kind.PROPOSE_TEAM, Kind.SPEAK, Kind.VOTE, Kind.CARD, Kind.ASSASSINATE}
