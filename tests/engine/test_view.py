"""Names of viewers, and observations that carry refusals."""

from typing import Any

import pytest

from engine.actions import APPROVE, FAIL, REJECT, SUCCESS, ProposeTeam
from engine.errors import InvalidInput
from engine.profile import make_profile, without_talk
from engine.rules import create, decide, pending
from engine.state import apply, fold
from engine.terms import FULL, PUBLIC
from engine.view import observe, project, read_viewer, stream, viewer_name
from tests.engine.playing import Play


def test_every_viewer_has_one_name() -> None:
    for viewer in (PUBLIC, FULL, *range(1, 11)):
        assert read_viewer(viewer_name(viewer), 10) == viewer


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Public",
        "seat",
        "seat:",
        "seat:0",
        "seat:6",
        "seat:07",
        "seat:+1",
        "seat: 1",
        "seat:1 ",
        "seat:１",
        "1",
    ],
)
def test_an_unknown_viewer_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_viewer(name, 5)
    assert refusal.value.pointer == "/viewer"


def test_refusals_are_handed_to_the_seat_that_is_asked_again() -> None:
    game = Play()
    (request,) = pending(game.state)
    assert observe(game.state, request).refusals == ()
    assert observe(game.state, request, ("too many seats",)).refusals == ("too many seats",)


def test_a_returned_stream_is_a_copy() -> None:
    game = Play()
    for viewer in (PUBLIC, FULL, 1):
        before = len(stream(game.state, viewer))
        stream(game.state, viewer).clear()
        assert len(stream(game.state, viewer)) == before


def test_ballots_cast_at_once_stand_where_single_ones_would() -> None:
    at_once = fold(create(without_talk(make_profile("official", 7)), 4))
    apply(at_once, decide(at_once, [(at_once.table.leader, ProposeTeam((1, 2)))]))
    singly = fold(at_once.log)
    answers = [(seat, APPROVE if seat % 3 else REJECT) for seat in range(1, 8)]
    apply(at_once, decide(at_once, answers))
    for answer in answers:
        apply(singly, decide(singly, [answer]))
    for viewer in range(-1, 8):
        assert stream(at_once, viewer) == stream(singly, viewer) == project(at_once.log, viewer)
    assert at_once == singly
    assert [hand.vote for hand in at_once.hands] == [action.approve for _, action in answers]
    assert all(at_once.table.opening - 1 == hand.answered for hand in at_once.hands)


def test_two_folds_are_equal_where_everything_in_them_is() -> None:
    game = Play()
    for _ in range(2):
        game.round()
    state = game.state
    log = state.log
    anew = fold(log)
    assert anew == state
    # However the log comes: at once, event by event, or by a generator.
    slowly = fold(log[:1])
    for event in log[1:]:
        apply(slowly, (event,))
    assert slowly == state == fold(iter(log))
    assert [hand.answered for hand in slowly.hands] == [hand.answered for hand in state.hands]
    parts: list[Any] = [anew, anew.table, anew.hand(2)]
    unseen = {"_tallies", "_whole", "_kept", "_answered"}
    for part, same in zip(parts, (state, state.table, state.hand(2)), strict=True):
        assert part == same
        assert part != "another kind"
        for name in set(type(part).__slots__) - unseen:
            before = getattr(part, name)
            setattr(part, name, "something else")
            assert part != same, name
            setattr(part, name, before)
        assert part == same


def test_no_hand_shoots_in_the_eyes_of_a_seat_that_does_not() -> None:
    # Seats 4 and 5 are evil, and seat 4 is the assassin: it alone knows of its shot.
    log = Play().state
    assert [[hand.shoots for hand in fold(stream(log, seat)).hands] for seat in (1, 4)] == [
        [False] * 5,
        [False, False, False, True, False],
    ]


def test_a_seats_facts_agree_with_the_table() -> None:
    game = Play()
    assert game.state.table.facts(1) == set()
    game.propose(2, 3)
    assert game.state.table.facts(1) == {"leader_not_on_team", "seat_not_on_team"}
    assert game.state.table.facts(2) == {"leader_not_on_team"}
    game.vote(0)
    assert game.leader == 2
    game.propose(2, 3)
    assert game.state.table.facts(1) == {"earlier_vote", "seat_not_on_team"}
    assert game.state.table.facts(2) == {"earlier_vote"}
    # One quest fails and the next succeeds: one has failed, and no longer the last. No team stands yet.
    game = Play()
    game.propose(3, 4)
    game.vote(5)
    game.do((3, SUCCESS), (4, FAIL))
    assert game.state.table.facts(1) == {"earlier_vote", "failed_quest", "last_quest_failed"}
    game.round()
    assert game.state.table.facts(1) == {"earlier_vote", "failed_quest"}
    game = Play()
    game.round()
    assert game.state.table.facts(1) == {"earlier_vote"}


def test_seats_without_names_are_called_by_their_numbers() -> None:
    assert Play().state.table.names == ("Player 1", "Player 2", "Player 3", "Player 4", "Player 5")


def test_the_leader_is_asked_for_as_many_seats_as_the_quest_takes() -> None:
    # Five players: 2, 3, 2, 3, 3. All loyal teams succeed until three have, so the third is the last here.
    game = Play()
    sizes = []
    for _ in range(3):
        sizes.append(pending(game.state)[0].team_size)
        game.round()
    assert sizes == [2, 3, 2]
