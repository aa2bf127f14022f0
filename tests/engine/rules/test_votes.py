"""Proposals and votes: who leads, what passes, and what the last rejection does."""

import pytest

from engine.actions import CastVote, ProposeTeam, Reconsider
from engine.errors import IllegalAction
from engine.rules import legal
from tests.engine.playing import FIVE, SEVEN, Play, names

SIX = "merlin percival servant servant assassin morgana"


@pytest.mark.parametrize(("deal", "carries"), [(FIVE, 3), (SIX, 4), (SEVEN, 4)])
def test_more_than_half_carry_a_team(deal: str, carries: int) -> None:
    for yes in (carries - 1, carries):
        game = Play(deal)
        game.propose()
        assert game.vote(yes)[len(deal.split())][1]["approved"] is (yes == carries)


@pytest.mark.parametrize(("deal", "carries"), [(FIVE, 3), (SIX, 3), (SEVEN, 4)])
def test_half_carries_a_team_where_half_is_enough(deal: str, carries: int) -> None:
    for yes in (carries - 1, carries):
        game = Play(deal, approval="at_least_half")
        game.propose()
        assert game.vote(yes)[len(deal.split())][1]["approved"] is (yes == carries)


def test_nobodys_ballot_is_public_before_all_are_in() -> None:
    game = Play()
    game.propose()
    for seat in (3, 1, 5, 2):
        assert names(game.do((seat, CastVote(True)))) == ["vote_cast"]
        assert [event for event in game.state.public if "Vote" in type(event).__name__] == []
    last = game.do((4, CastVote(False)))
    assert names(last) == ["vote_cast", "votes_revealed"]
    assert last[1][1] == {
        "votes": {"1": True, "2": True, "3": True, "4": False, "5": True},
        "approved": True,
        "forced": False,
    }


def test_ballots_that_came_one_by_one_count_as_they_were_cast() -> None:
    game = Play()
    game.propose()
    for seat, approve in ((3, False), (1, False), (2, True), (4, True)):
        game.do((seat, CastVote(approve)))
    revealed = game.do((5, CastVote(False)))[1][1]
    assert revealed["votes"] == {"1": False, "2": True, "3": False, "4": True, "5": False}
    assert revealed["approved"] is False


def test_a_seat_votes_once() -> None:
    game = Play()
    game.propose()
    game.do((2, CastVote(True)))
    with pytest.raises(IllegalAction, match="seat 2 is not asked"):
        game.do((2, CastVote(False)))
    with pytest.raises(IllegalAction, match="seat 3 may answer only once"):
        game.do((3, CastVote(True)), (3, CastVote(False)))


@pytest.mark.parametrize("approve", [1, 0, None, "no", 1.0])
def test_a_vote_is_true_or_false_and_nothing_that_equals_it(approve: object) -> None:
    game = Play()
    game.propose()
    with pytest.raises(IllegalAction, match="approve is true or false") as refusal:
        game.do((1, CastVote(approve)))  # type: ignore[arg-type]
    assert refusal.value.pointer == "/approve"


def test_leadership_moves_on_after_a_rejection_and_after_a_quest() -> None:
    game = Play()
    leaders = [game.leader]
    game.reject()
    leaders.append(game.leader)
    game.round()
    leaders.append(game.leader)
    game.round(fails=1)
    leaders.append(game.leader)
    assert leaders == [1, 2, 3, 4]


def test_leadership_wraps_round_the_table() -> None:
    game = Play(first_leader=5)
    game.reject()
    assert game.leader == 1


def test_leadership_may_move_the_other_way() -> None:
    game = Play(leader_step=-1)
    game.reject()
    assert game.leader == 5
    game.round()
    assert game.leader == 4


def test_the_fifth_rejection_gives_evil_the_game() -> None:
    game = Play()
    for attempt in range(1, 5):
        assert names(game.reject())[-1] == "proposal_opened"
        assert game.state.table.attempt == attempt + 1
    revealed, ended = game.reject()[-2:]
    assert (revealed[1]["approved"], revealed[1]["forced"]) == (False, False)
    assert (ended[1]["winner"], ended[1]["ending"]) == ("evil", "max_rejections")
    assert game.asked == []


def test_rejections_are_counted_anew_in_every_round() -> None:
    game = Play()
    for _ in range(4):
        game.reject()
    game.round()
    assert game.state.table.attempt == 1
    for _ in range(4):
        game.reject()
    assert not game.state.table.over


def test_the_second_team_of_interintent_goes_whatever_the_vote_says() -> None:
    game = Play(profile="interintent", summaries=False)
    game.reject()
    assert game.state.table.attempt == 2
    revealed = game.reject()[-1]
    assert revealed == ("votes_revealed", revealed[1])
    assert (revealed[1]["approved"], revealed[1]["forced"]) == (False, True)
    assert game.kind == "card"


def test_an_approved_last_team_is_not_called_forced() -> None:
    game = Play(max_rejections=1, on_max_rejections="last_team_goes")
    game.propose()
    assert game.vote(5)[-1][1]["forced"] is False


def test_a_forced_team_goes_without_a_vote() -> None:
    game = Play(max_rejections=2, on_max_rejections="forced_team")
    game.reject()
    game.propose(2, 3)
    assert game.asked == [("card", 2), ("card", 3)]
    game.quest()
    last = game.state.table.tallies[-1]
    assert (last.votes, last.approved, last.forced, last.team) == ((), False, True, (2, 3))


def test_a_forced_team_that_its_leader_changed_is_remembered_as_proposed_and_as_it_went() -> None:
    game = Play(max_rejections=1, on_max_rejections="forced_team", reconsideration=True)
    game.propose(1, 2)
    game.do((1, Reconsider((1, 3))))
    game.quest()
    (only,) = game.state.table.tallies
    assert (only.proposed, only.team, only.forced) == ((1, 2), (1, 3), True)


def test_the_last_rejection_may_fail_the_quest_and_let_the_game_go_on() -> None:
    game = Play(max_rejections=2, on_max_rejections="quest_fails")
    game.reject()
    events = game.reject()
    assert events[-2] == ("quest_resolved", {"round": 1, "team": [], "fails": None, "succeeded": False})
    assert events[-1] == ("proposal_opened", {"round": 2, "attempt": 1, "leader": 3})


def test_three_quests_failed_by_rejections_end_the_game() -> None:
    game = Play(max_rejections=1, on_max_rejections="quest_fails")
    game.reject()
    game.reject()
    assert game.reject()[-1][1]["ending"] == "three_quests_failed"


@pytest.mark.parametrize(
    ("team", "message"),
    [
        ((1,), "round 1 takes 2 seats"),
        ((1, 2, 3), "round 1 takes 2 seats"),
        ((), "round 1 takes 2 seats"),
        ((2, 2), "names each seat once"),
        ((0, 1), "seats are 1 to 5"),
        ((1, 6), "seats are 1 to 5"),
        ((-1, 2), "seats are 1 to 5"),
        ((True, 2), "seats are 1 to 5"),
        ((1.0, 2), "seats are 1 to 5"),
        (("1", 2), "seats are 1 to 5"),
        ((None, 2), "seats are 1 to 5"),
        ("12", "list of seats"),
        (None, "list of seats"),
        (12, "list of seats"),
    ],
)
def test_an_invalid_team_is_refused_with_its_values(team: object, message: str) -> None:
    game = Play()
    with pytest.raises(IllegalAction, match=message) as refusal:
        game.do((1, ProposeTeam(team)))  # type: ignore[arg-type]
    assert (refusal.value.pointer, refusal.value.seat) == ("/team", 1)


def test_only_the_leader_proposes_and_not_twice() -> None:
    game = Play()
    with pytest.raises(IllegalAction, match="seat 2 is not asked in round 1, attempt 1, phase propose"):
        game.do((2, ProposeTeam((1, 2))))
    game.propose()
    with pytest.raises(IllegalAction, match="seat 1 is asked for vote"):
        game.do((1, ProposeTeam((1, 2))))


def test_a_team_is_recorded_in_ascending_order() -> None:
    assert Play().propose(4, 2)[0] == ("team_proposed", {"leader": 1, "team": [2, 4]})


def test_a_team_may_be_a_list() -> None:
    for team in ([2, 4], [4, 2]):
        assert Play().do((1, ProposeTeam(team)))[0][1]["team"] == [2, 4]  # type: ignore[arg-type]


@pytest.mark.parametrize("seat", [True, 1.0, "1", None])
def test_a_value_that_only_equals_a_seat_number_is_refused(seat: object) -> None:
    game = Play()
    proposals = legal(game.state.table, game.state.hand(1)) or ()
    with pytest.raises(IllegalAction, match="seats are 1 to 5"):
        game.do((seat, proposals[0]))  # type: ignore[arg-type]
    # Interned events would carry it into every later game.
    assert repr(Play().do((1, proposals[0]))[0][1]) == "{'leader': 1, 'team': [1, 2]}"
    game.propose()
    with pytest.raises(IllegalAction, match="seats are 1 to 5"):
        game.do((seat, CastVote(True)))  # type: ignore[arg-type]


def test_a_leader_may_keep_or_change_the_team_before_the_vote() -> None:
    for team, changed in (((1, 2), False), ((2, 1), False), ((2, 3), True)):
        game = Play(reconsideration=True)
        game.propose(1, 2)
        assert game.asked == [("reconsider", 1)]
        assert game.do((1, Reconsider(team)))[0][1] == {
            "leader": 1,
            "team": sorted(team),
            "changed": changed,
        }
        assert game.kind == "vote"
        assert game.state.table.proposed == (1, 2)


def test_the_vote_is_about_the_team_as_confirmed() -> None:
    game = Play(reconsideration=True)
    game.propose(1, 2)
    game.do((1, Reconsider((3, 5))))
    game.vote(5)
    assert game.asked == [("card", 3), ("card", 5)]
    assert game.state.table.tallies[-1].team == (3, 5)
