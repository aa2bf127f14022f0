"""Quests: cards, how many fails are needed, and the third success or failure."""

from itertools import combinations

import pytest

from engine.actions import CastVote, PlayCard, ProposeTeam
from engine.errors import IllegalAction
from engine.profile import make_profile
from tests.engine.playing import FIVE, SEVEN, Play, names

# The board game's table, written down again.
SIZES = {
    5: [2, 3, 2, 3, 3],
    6: [2, 3, 4, 3, 4],
    7: [2, 3, 3, 4, 4],
    8: [3, 4, 4, 5, 5],
    9: [3, 4, 4, 5, 5],
    10: [3, 4, 4, 5, 5],
}


@pytest.mark.parametrize("profile", ["interintent", "official"])
@pytest.mark.parametrize("players", range(5, 11))
def test_teams_have_the_size_of_the_rulebook(profile: str, players: int) -> None:
    made = make_profile(profile, players)
    assert list(made.team_sizes) == SIZES[players]
    for size, teams in zip(SIZES[players], made.teams, strict=True):
        assert list(teams) == list(combinations(range(1, players + 1), size))


@pytest.mark.parametrize("players", range(5, 11))
def test_two_fails_are_needed_on_quest_four_from_seven_players_in_the_official_game_only(
    players: int,
) -> None:
    official = [1, 1, 1, 2, 1] if players >= 7 else [1] * 5
    assert list(make_profile("official", players).fails_needed) == official
    assert list(make_profile("interintent", players).fails_needed) == [1] * 5


def test_one_fail_card_fails_a_quest() -> None:
    assert Play().round(fails=1)[-2] == (
        "quest_resolved",
        {"round": 1, "team": [4, 5], "fails": 1, "succeeded": False},
    )


def test_quest_four_stands_one_fail_where_it_needs_two() -> None:
    for fails, succeeded in ((1, True), (2, False)):
        game = Play(SEVEN)
        game.round()
        game.round()
        game.round(fails=1)
        result = next(values for name, values in game.round(fails=fails) if name == "quest_resolved")
        assert (result["round"], result["fails"], result["succeeded"]) == (4, fails, succeeded)


def test_only_the_team_is_asked_for_cards() -> None:
    game = Play()
    game.propose(2, 4)
    game.vote(5)
    assert game.asked == [("card", 2), ("card", 4)]
    with pytest.raises(IllegalAction, match="seat 1 is not asked"):
        game.do((1, PlayCard(True)))


def test_a_loyal_seat_cannot_play_a_fail_among_the_cards_of_its_whole_team_either() -> None:
    for team, failing in (((1, 2), 1), ((1, 2), 2), ((3, 4), 3)):
        game = Play()
        game.propose(*team)
        game.vote(5)
        with pytest.raises(IllegalAction, match="a loyal seat plays success") as refusal:
            game.do(*((seat, PlayCard(seat != failing)) for seat in team))
        assert refusal.value.seat == failing


def test_a_loyal_seat_cannot_play_a_fail() -> None:
    game = Play()
    game.propose(2, 4)
    game.vote(5)
    with pytest.raises(IllegalAction, match="a loyal seat plays success") as refusal:
        game.do((2, PlayCard(False)))
    assert refusal.value.pointer == "/success"
    game.do((4, PlayCard(False)))


@pytest.mark.parametrize("role", ["assassin", "morgana", "mordred", "oberon", "minion"])
def test_every_evil_role_may_play_a_fail_and_need_not(role: str) -> None:
    for success in (True, False):
        game = Play(f"{role} merlin servant servant servant", assassination="none")
        game.propose(1, 2)
        game.vote(5)
        assert game.do((1, PlayCard(success)))[0] == ("card_played", {"seat": 1, "success": success})


def test_who_played_a_fail_stays_hidden() -> None:
    game = Play()
    game.round(fails=1)
    assert {type(event).__name__ for event in game.state.public} == {
        "GameCreated",
        "ProposalOpened",
        "TeamProposed",
        "VotesRevealed",
        "QuestResolved",
    }


@pytest.mark.parametrize("success", [1, 0, None, "fail"])
def test_a_card_is_true_or_false_and_nothing_that_equals_it(success: object) -> None:
    game = Play()
    game.propose(4, 5)
    game.vote(5)
    with pytest.raises(IllegalAction, match="success is true or false"):
        game.do((4, PlayCard(success)))  # type: ignore[arg-type]


def test_cards_may_come_in_any_order_and_are_counted_together() -> None:
    game = Play()
    game.propose(4, 5)
    game.vote(5)
    assert names(game.do((5, PlayCard(False)))) == ["card_played"]
    assert game.asked == [("card", 4)]
    assert game.do((4, PlayCard(False)))[1][1]["fails"] == 2


def test_a_card_of_an_earlier_quest_does_not_count_again() -> None:
    game = Play()
    game.round(fails=1)
    game.propose(3, 4, 5)
    game.vote(5)
    game.do((4, PlayCard(True)))
    game.do((3, PlayCard(True)))
    assert game.do((5, PlayCard(True)))[1][1]["fails"] == 0


def test_three_failed_quests_end_the_game_for_evil() -> None:
    game = Play()
    game.round(fails=1)
    game.round(fails=1)
    ended = game.round(fails=1)[-1]
    assert (ended[0], ended[1]["winner"], ended[1]["ending"]) == ("game_ended", "evil", "three_quests_failed")


def test_three_successes_win_for_loyal_if_there_is_no_assassination() -> None:
    game = Play(assassination="none")
    game.round()
    game.round()
    ended = game.round()[-1]
    assert (ended[1]["winner"], ended[1]["ending"]) == ("loyal", "three_quests_succeeded")


def test_nothing_is_accepted_after_the_end() -> None:
    game = Play(assassination="none")
    for _ in range(3):
        game.round()
    for action in (CastVote(True), PlayCard(True), ProposeTeam((1, 2))):
        with pytest.raises(IllegalAction, match="the game is over"):
            game.do((1, action))


def test_a_game_has_at_most_five_quests() -> None:
    game = Play(FIVE)
    for fails in (1, 0, 1, 0):
        game.round(fails=fails)
    assert game.state.table.round == 5
    assert game.round(fails=1)[-1][0] == "game_ended"
