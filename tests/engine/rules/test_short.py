"""What must be checked before simple answers take the short path (ADR 0022)."""

import pytest

from engine.actions import APPROVE, FAIL, NOTHING, REJECT, SUCCESS, ProposeTeam
from engine.errors import IllegalAction
from engine.events import ChoiceExplained
from engine.terms import Kind
from tests.engine.playing import Play, names

EVERYBODY = range(1, 6)


def proposed(*team: int, **rules: object) -> Play:
    game = Play(**rules)  # type: ignore[arg-type]
    game.propose(*team)
    return game


def test_a_leaders_words_and_thoughts_with_a_listed_team_are_kept() -> None:
    game = Play(discussion="before_proposal").skip("speak")
    (team, *_) = game.profile.teams[0]
    assert names(game.do((1, ProposeTeam(team, "These two.")))) == ["team_proposed", "utterance_made"]
    game = Play()
    thought = ChoiceExplained(1, Kind.PROPOSE_TEAM, "They were quiet.")
    assert names(game.do((1, ProposeTeam(team, "", (thought,))))) == ["choice_explained", "team_proposed"]


def test_ballots_belong_to_their_seats_in_whatever_order_they_come() -> None:
    ballots = [(seat, APPROVE if seat in (2, 4, 5) else REJECT) for seat in EVERYBODY]
    ordered, reversed_ = proposed(1, 2).do(*ballots), proposed(1, 2).do(*ballots[::-1])
    assert ordered == reversed_
    assert ordered[5][1]["votes"] == {"1": False, "2": True, "3": False, "4": True, "5": True}


def test_five_ballots_from_four_seats_are_refused() -> None:
    with pytest.raises(IllegalAction, match="seat 2 may answer only once"):
        proposed(1, 2).do((1, APPROVE), (2, APPROVE), (2, APPROVE), (4, APPROVE), (5, APPROVE))


def test_nobody_votes_again_with_the_whole_table() -> None:
    game = proposed(1, 2)
    game.do((3, REJECT))
    with pytest.raises(IllegalAction, match="seat 3"):
        game.do(*((seat, APPROVE) for seat in EVERYBODY))


def test_cards_belong_to_their_seats_in_whatever_order_they_come() -> None:
    cards = [(1, SUCCESS), (4, FAIL)]
    played = []
    for answers in (cards, cards[::-1]):
        game = proposed(1, 4)
        game.vote(5)
        played.append(game.do(*answers))
    assert played[0] == played[1]
    assert [values for name, values in played[0] if name == "card_played"] == [
        {"seat": 1, "success": True},
        {"seat": 4, "success": False},
    ]


@pytest.mark.parametrize("other", [3, 5])
def test_a_seat_that_is_not_on_the_team_plays_no_card_for_one_that_is(other: int) -> None:
    game = proposed(1, 4)
    game.vote(5)
    with pytest.raises(IllegalAction, match=f"seat {other}"):
        game.do((1, SUCCESS), (other, SUCCESS))


def test_nobody_plays_a_second_card_with_the_whole_team() -> None:
    game = proposed(1, 4)
    game.vote(5)
    game.do((4, FAIL))
    with pytest.raises(IllegalAction, match="seat 4"):
        game.do((1, SUCCESS), (4, SUCCESS))


def test_one_seats_empty_summary_does_not_count_for_the_table() -> None:
    game = Play(summaries=True)
    game.reject()
    for seat in EVERYBODY:
        said = names(game.do((seat, NOTHING)))
        assert said == ["round_summarised"] + ["proposal_opened"] * (seat == 5)


def test_nobody_summarises_again_with_the_whole_table() -> None:
    game = Play(summaries=True)
    game.reject()
    game.do((3, NOTHING))
    with pytest.raises(IllegalAction, match="seat 3"):
        game.do(*((seat, NOTHING) for seat in EVERYBODY))


def test_five_empty_summaries_from_four_seats_are_refused() -> None:
    game = Play(summaries=True)
    game.reject()
    with pytest.raises(IllegalAction, match="seat 2 may answer only once"):
        game.do(*((seat, NOTHING) for seat in (1, 2, 2, 4, 5)))


@pytest.mark.parametrize("first", [True, False])
def test_no_other_seat_proposes_along_with_the_leader(first: bool) -> None:
    team = Play().profile.teams[0][0]
    answers = [(1, ProposeTeam(team)), (2, ProposeTeam(team))]
    with pytest.raises(IllegalAction, match="seat 2"):
        Play().do(*answers[:: 1 if first else -1])


def test_a_listed_team_of_another_quest_is_refused() -> None:
    game = Play()
    two, three = (next(iter(teams.values())) for teams in game.state.table.profile.legal_team[:2])
    with pytest.raises(IllegalAction, match="takes 2 seats"):
        game.do((1, ProposeTeam(three)))
    game.round()
    with pytest.raises(IllegalAction, match="takes 3 seats"):
        game.do((game.leader, ProposeTeam(two)))


def test_no_team_is_proposed_while_cards_are_played_or_the_shot_is_open() -> None:
    game = proposed(1, 2)
    team = game.profile.teams[0][0]
    game.vote(5)
    with pytest.raises(IllegalAction, match="seat 1"):
        game.do((1, ProposeTeam(team)))
    game.quest()
    for _ in range(2):
        game.round()
    assert game.kind == "assassinate"
    for seat in EVERYBODY:
        with pytest.raises(IllegalAction):
            game.do((seat, ProposeTeam(game.profile.teams[2][0])))
