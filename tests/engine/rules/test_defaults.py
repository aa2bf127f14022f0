"""Defaults: what is played for a seat that does not answer, chosen from public facts alone."""

from random import Random

import pytest

from engine import rules, state, view
from engine.actions import Assassinate, CastVote, PlayCard, ProposeTeam, Reconsider, Speak, Summarise
from engine.rules import Request, check, default, pending
from engine.terms import PUBLIC, Kind
from tests.engine.games import canonical, chooser, new_game, random_profile, step
from tests.engine.playing import SEVEN, Play


def defaults(game: Play) -> list[object]:
    return [default(game.state.table, request) for request in pending(game.state)]


def test_the_default_team_is_the_leader_and_the_seats_that_follow() -> None:
    assert defaults(Play(SEVEN, first_leader=6)) == [ProposeTeam((6, 7))]
    game = Play(SEVEN, first_leader=6)
    game.round()
    assert defaults(game) == [ProposeTeam((1, 2, 7))]  # seat 7 leads, wrapping round


def test_the_default_vote_rejects_and_the_default_card_succeeds() -> None:
    game = Play()
    game.propose(4, 5)
    assert defaults(game) == [CastVote(False)] * 5
    game.vote(5)
    assert defaults(game) == [PlayCard(True)] * 2


def test_the_default_speech_and_summary_say_nothing() -> None:
    game = Play(profile="interintent")
    game.propose()
    assert defaults(game) == [Speak("")]
    game.skip("speak", "reconsider", "vote")
    assert defaults(game) == [Summarise(())] * 5


def test_the_default_reconsideration_keeps_the_team() -> None:
    game = Play(reconsideration=True)
    game.propose(2, 4)
    assert defaults(game) == [Reconsider((2, 4))]


def test_the_default_shot_is_at_the_next_seat_or_holds_fire_where_it_may() -> None:
    game = Play("morgana merlin percival servant assassin")
    for _ in range(3):
        game.propose(*range(2, 2 + game.profile.team_sizes[game.state.table.round - 1]))
        game.vote(5)
        game.quest()
    assert game.asked == [("assassinate", 5)]
    assert defaults(game) == [Assassinate(1)]
    game = Play(assassination="after_any_quest")
    game.round()
    assert defaults(game) == [Assassinate(None)]


@pytest.mark.parametrize("share", range(2))
def test_a_default_is_legal_and_the_same_from_the_public_stream_alone(share: int) -> None:
    for number in range(share, 60, 2):
        rng = Random(number)
        game = new_game(random_profile(rng), number)
        public = state.State()
        told = 0
        while requests := rules.pending(game):
            # The public fold knows no deal, no seed and no hand: what depends on them cannot be here.
            state.apply(public, view.stream(game, PUBLIC)[told:])
            told = len(public.log)
            assert canonical(public.public) == canonical(game.public)
            for request in requests:
                action = default(game.table, request)
                assert default(public.table, request) == action
                check(game.table, game.hand(request.seat), action)
            step(game, chooser(rng))


def test_a_game_of_defaults_ends() -> None:
    for number in range(60):
        game = new_game(random_profile(Random(number)), number)
        while pending(game):
            step(game, lambda now, request: default(now.table, request))
        assert game.table.ending is not None


def test_a_default_depends_on_the_asked_seat_and_on_no_role() -> None:
    for kind, action in ((Kind.VOTE, CastVote(False)), (Kind.CARD, PlayCard(True)), (Kind.SPEAK, Speak(""))):
        for deal in ("merlin percival servant assassin morgana", "morgana assassin servant percival merlin"):
            table = Play(deal).state.table
            assert {default(table, Request(seat, kind, 1, 1, None)) for seat in range(1, 6)} == {action}
