"""The engine against an independent referee, over random games and every kind of wrong action.

One number fixes a game: its size, its rules, its deal, what everybody does and what is tried in
vain. ``python -m tests.engine.test_model NUMBER`` plays it again; MODEL_GAMES sets how many games
there are (1,200 unless set; the night takes 200,000).
"""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from engine import rules
from engine.actions import (
    Assassinate,
    CastVote,
    Confer,
    PlayCard,
    ProposeTeam,
    Reconsider,
    RecordQuest,
    RecordShot,
    RecordVote,
    Remark,
    Repropose,
    Speak,
    Summarise,
)
from engine.errors import IllegalAction
from engine.events import (
    BeliefsFormed,
    CardPlayed,
    IntentionsSelected,
    SpeechDrafted,
    TeamProposed,
    UtteranceMade,
    VoteCast,
    payload,
    type_name,
)
from engine.intentions import BY_ID
from engine.profile import TEAM_SIZES
from engine.rules import Request
from engine.state import State, apply
from engine.terms import Role
from engine.thoughts import Belief, Choice
from tests.engine.games import new_game, random_action, random_profile, random_team
from tests.engine.referee import Referee, shown
from tests.engine.ways import both_ways
from tests.tiers import few_quickly

GAMES = int(os.environ.get("MODEL_GAMES", "1200"))
SHARES = 10
"""The games are dealt to so many tests, so that a failure says which part and the rest goes on."""

STRANGE: tuple[Any, ...] = (0, -1, 11, 99, True, False, 1.0, 2.5, "1", None, float("nan"))
"""What is no seat at any table, or no seat at all."""


def referee_of(game: State) -> Referee:
    """The referee of a game just opened, told what the full viewer sees."""
    told = {type_name(event): payload(event) for event in game.log}
    dealt = told["roles_dealt"]
    return Referee(
        told["game_created"]["profile"],
        list(dealt["roles"].values()),
        told["proposal_opened"]["leader"],
        dealt["shooter"],
        int(dealt["seed"]),
    )


def opening_of(game: State, referee: Referee) -> list[tuple[str, Any]]:
    """What the sources say stands in a log before the first proposal, beyond profile and deal."""
    return [
        (
            "role_learned",
            {
                "seat": seat,
                "role": role,
                "sees": shown(referee.roles, seat),
                "shoots": seat == referee.shooter,
            },
        )
        for seat, role in enumerate(referee.roles, 1)
    ] + referee.opening


def test_actions_of_the_wrong_kind_are_all_tried() -> None:
    rng = Random(1)
    game = new_game(random_profile(rng), 1)
    tried = {type(action) for _ in range(3000) for _, action in [any_action(rng, game)]}
    assert len(tried) >= 13


def any_action(rng: Random, game: State) -> tuple[Any, Any]:
    """A seat and an action with no regard to the rules; a few of them are legal all the same."""
    table = game.table
    seats = range(1, table.players + 1)
    seat = rng.choice(seats) if rng.random() < 0.9 else rng.choice((0, -1, table.players + 1, True, 1.0))
    odd = rng.choice(STRANGE)
    size = rng.randint(0, table.players)
    team: tuple[Any, ...] = tuple(rng.choices(seats, k=size))
    if rng.random() < 0.4 and not table.over:
        team = random_team(rng, table)
        team = tuple(rng.choice((float, str, bool))(team[0]) if i == 0 else s for i, s in enumerate(team))
    if rng.random() < 0.3:
        team = (*team[1:], odd)
    asked = rules.pending(game)
    if asked and rng.random() < 0.15:  # what is listed as legal, by a seat that only equals the right one
        right = asked[0].seat
        listed = rules.legal(table, game.hand(right)) or (Speak("so"),)
        return rng.choice((right, True, float(right), str(right))), rng.choice(listed)
    actions = (
        ProposeTeam(team, "so"),
        Reconsider(team, "so"),
        Speak("so"),
        Speak(None),  # type: ignore[arg-type]
        CastVote(rng.choice((True, False))),
        CastVote(rng.choice((0, 1, None, "no", 1.0))),  # type: ignore[arg-type]
        PlayCard(rng.choice((True, False, 0, 1, None))),  # type: ignore[arg-type]
        Summarise((("result", "x"),)),
        Summarise((("result", "x"), ("result", "y"))),
        Assassinate(rng.choice((*seats, odd))),
        Remark("so"),
        Confer("so"),
        Repropose(team),
        RecordVote((True,) * table.players, True),
        RecordQuest(0, True),
        RecordShot(False),
        "vote",
        None,
    )
    return seat, rng.choice(actions)


def spoiled(rng: Random, game: State, request: Request) -> tuple[Any, Any]:
    """A good answer of an asked seat with one thing changed."""
    seat, players = request.seat, game.table.players
    action = random_action(rng, game.table, game.hand(seat), request, think=False)
    other = rng.choice([s for s in range(1, players + 1) if s != seat])
    way = rng.randrange(13)
    notes: Any = None
    if way == 0:
        return other, action
    if way == 1:
        notes = (SpeechDrafted(other, "formulation", "I think", "I say"),)
    elif way == 2:
        notes = (IntentionsSelected(seat, "first", (Choice(rng.choice(sorted(BY_ID))),), False),)
    elif way == 3:
        notes = (IntentionsSelected(seat, "final", (Choice("no_such_intention"),), False),)
    elif way == 4:
        one = rng.choice(rules.offered(game.table, game.hand(seat), request.kind) or sorted(BY_ID))
        notes = (IntentionsSelected(seat, "first", (Choice(one), Choice(one)), True),)
    elif way == 5:
        notes = (BeliefsFormed(seat, (Belief(other, game.hand(seat).role, (), 3),)),)
    elif way == 6:
        notes = (BeliefsFormed(seat, (Belief(other, rng.choice(list(Role)), (), 3),)),)
    elif way == 7:
        notes = (BeliefsFormed(seat, (Belief(rng.choice((seat, *STRANGE)), None, (), 3),)),)
    elif way == 8:
        notes = (BeliefsFormed(seat, (Belief(other, None, ("made_up",), 3),)),)
    elif way == 9:
        notes = (BeliefsFormed(seat, (Belief(other, None, (), rng.choice((-1, 6, 2.5, True))),)),)
    elif way == 10:
        # What would be told to everybody, or counted as another answer, passed off as a thought.
        notes = (
            rng.choice(
                (
                    VoteCast(seat, True),
                    CardPlayed(seat, False),
                    UtteranceMade(seat, 1, 1, 0, "discuss", "psst"),
                    TeamProposed(seat, (1, 2)),
                )
            ),
        )
    elif way == 11 and request.kind == "card":
        return seat, PlayCard(False)
    else:
        return seat, rng.choice((replace(action), Remark("x")))
    return seat, replace(action, thoughts=notes) if notes else action


def wire(events: Any) -> list[tuple[str, Any]]:
    return [(type_name(event), payload(event)) for event in events]


def refused(ask: Callable[..., object], *arguments: object) -> IllegalAction | None:
    """The refusal, where there is one."""
    try:
        ask(*arguments)
    except IllegalAction as refusal:
        return refusal
    return None


def try_in_vain(rng: Random, game: State, referee: Referee) -> None:
    """Engine and referee agree on a few random wrong (or, by chance, right) actions."""
    before = (len(game.log), game.answers, game.table.opening, game.table.phase)
    requests = rules.pending(game)
    for _ in range(4):
        if requests and rng.random() < 0.6:
            seat, action = spoiled(rng, game, rng.choice(requests))
        else:
            seat, action = any_action(rng, game)
        allowed = referee.may(seat, action)
        refusal = refused(rules.decide, game, [(seat, action)])
        assert (refusal is None) == allowed, (
            f"the rules {'allow' if allowed else 'forbid'} it: seat {seat!r}, {action!r}: {refusal}"
        )
        assert refusal is None or refusal.seat == seat
        if type(seat) is int and 1 <= seat <= game.table.players:
            checked = refused(rules.check, game.table, game.hand(seat), action) is None
            assert checked == allowed, f"check and decide differ: seat {seat}, {action!r}"
    assert before == (len(game.log), game.answers, game.table.opening, game.table.phase)


def try_together(rng: Random, game: State, referee: Referee) -> None:
    """Engine and referee agree on answers of all asked seats at once, one of which may be wrong."""
    requests = rules.pending(game)
    kind = requests[0].kind
    if kind not in ("vote", "card", "summarise"):
        return
    simple: tuple[Any, ...] = {
        "vote": (CastVote(True), CastVote(False)),
        "card": (PlayCard(True), PlayCard(True), PlayCard(False)),
        "summarise": (Summarise(()),),
    }[kind]
    answers = [(request.seat, rng.choice(simple)) for request in requests]
    if rng.random() < 0.2:
        answers[rng.randrange(len(answers))] = spoiled(rng, game, rng.choice(requests))
    if len({seat for seat, _ in answers}) == len(answers) and all(type(seat) is int for seat, _ in answers):
        allowed = all(referee.may(seat, action) for seat, action in answers)
        assert (refused(both_ways, game, answers) is None) == allowed, f"{answers!r}"


def same_choices(game: State, referee: Referee) -> None:
    """``legal`` lists what the rules list, for asked seats and for all others."""
    for hand in game.hands:
        listed = rules.legal(game.table, hand)
        expected = referee.enumerated(hand.seat)
        if listed is None or expected is None:
            assert listed is expected
            continue
        values = [
            getattr(a, next(n for n in ("team", "approve", "success", "target") if hasattr(a, n)))
            for a in listed
        ]
        assert values == [value for _, value in expected]
    for request, asked in zip(rules.pending(game), referee.asked, strict=True):
        assert list(rules.offered(game.table, game.hand(request.seat), request.kind) or ()) == referee.menu(
            asked
        )


def one_game(number: int) -> State:
    """Plays the game of that number under the referee's eyes. Raises AssertionError where they differ."""
    rng = Random(number)
    # Every size and both profiles come round, whatever the luck.
    profile = random_profile(rng, players=list(TEAM_SIZES)[number % len(TEAM_SIZES)])
    game = new_game(profile, number)
    referee = referee_of(game)
    assert wire(game.log[2:]) == opening_of(game, referee)
    ids = set[str]()
    while requests := rules.pending(game):
        assert [(r.seat, r.kind, r.round, r.attempt, r.team_size) for r in requests] == referee.asked
        same_choices(game, referee)
        try_in_vain(rng, game, referee)
        some = list(requests) if rng.random() < 0.6 else rng.sample(requests, rng.randint(1, len(requests)))
        rng.shuffle(some)
        answers = [(r.seat, random_action(rng, game.table, game.hand(r.seat), r)) for r in some]
        for seat, action in answers:
            assert referee.may(seat, action), f"the game's own player is illegal: seat {seat}, {action!r}"
        try_together(rng, game, referee)
        events = both_ways(game, answers)
        assert wire(events) == referee.answer(dict(answers)), f"after {answers!r}"
        apply(game, events)
        for seat, action in answers:
            if len(requests) > len(some):
                with pytest.raises(IllegalAction):  # twice
                    rules.decide(game, [(seat, action)])
        fresh = {request.id for request in some}
        assert not fresh & ids, f"asked again: {fresh & ids}"
        ids |= fresh
    assert referee.over
    assert game.table.over
    try_in_vain(rng, game, referee)
    return game


def watched(number: int) -> State:
    """``one_game``, with the command that plays it again in the message of any failure."""
    try:
        return one_game(number)
    except Exception as fault:
        fault.add_note(f"replay: .venv/bin/python -m tests.engine.test_model {number}")
        raise


@pytest.mark.parametrize("share", few_quickly(range(SHARES), 3))
def test_the_engine_does_what_the_referee_says(share: int) -> None:
    for number in range(share, GAMES, SHARES):
        watched(number)


def test_random_games_reach_every_ending_and_every_rule() -> None:
    endings, settings = set(), set()
    for number in range(60):
        game = new_game(random_profile(Random(number), players=5 + number % 6), number)
        settings |= {
            (name, str(value)) for name, value in game.table.profile.settings().items() if name != "name"
        }
        rng = Random(number)
        while requests := rules.pending(game):
            answers = [
                (r.seat, random_action(rng, game.table, game.hand(r.seat), r, think=False)) for r in requests
            ]
            apply(game, rules.decide(game, answers))
        endings.add(str(game.table.ending))
    assert endings == {
        "three_quests_failed",
        "three_quests_succeeded",
        "merlin_assassinated",
        "merlin_survived",
        "max_rejections",
    }
    tried = {name: {value for key, value in settings if key == name} for name, _ in settings}
    assert {name: len(values) for name, values in tried.items() if name not in ("roles", "team_sizes")} == {
        "players": 6,
        "fails_needed": 3,
        "approval": 2,
        "max_rejections": 5,
        "on_max_rejections": 4,
        "discussion": 3,
        "reconsideration": 2,
        "summaries": 2,
        "assassination": 3,
        "missed_shot": 2,
        "first_leader": 8,
        "leader_step": 2,
        "reveal": 3,
    }


def test_a_failing_game_names_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "pending", lambda game: ())
    with pytest.raises(AssertionError) as caught:
        watched(7)
    assert caught.value.__notes__ == ["replay: .venv/bin/python -m tests.engine.test_model 7"]


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        over = one_game(int(argument)).table
        sys.stdout.write(f"game {argument}: {over.players} players, {over.winner} won, {over.ending}\n")
