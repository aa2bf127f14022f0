"""Viewers by name, and observations that carry refusals."""

import pytest

from engine.actions import APPROVE, REJECT, ProposeTeam
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
def test_what_names_no_viewer_of_the_table_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_viewer(name, 5)
    assert refusal.value.pointer == "/viewer"


def test_refusals_are_handed_to_the_seat_that_is_asked_again() -> None:
    game = Play()
    (request,) = pending(game.state)
    assert observe(game.state, request).refusals == ()
    assert observe(game.state, request, ("too many seats",)).refusals == ("too many seats",)


def test_a_stream_given_out_is_not_the_one_that_is_kept() -> None:
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
