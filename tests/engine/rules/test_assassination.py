"""The assassination: when it is offered, to whom, and how a shot or no shot ends the game."""

import pytest

from engine.actions import Assassinate
from engine.errors import IllegalAction, InvalidProfile
from engine.profile import make_profile
from engine.rules import create, pending
from engine.state import State, apply, fold
from engine.terms import Kind, Phase, Role
from tests.engine.playing import FIVE, Play, names


def after_three(**rules: object) -> Play:
    game = Play(**rules)
    for _ in range(3):
        game.round()
    return game


def test_three_successes_open_the_assassination() -> None:
    game = Play()
    game.round()
    game.round()
    assert names(game.round())[-1] == "assassination_opened"
    assert game.asked == [("assassinate", 4)]


def test_finding_merlin_wins_for_evil() -> None:
    made, ended = after_three().shoot(1)
    assert made == ("assassination_made", {"assassin": 4, "target": 1, "hit": True})
    assert (ended[1]["winner"], ended[1]["ending"]) == ("evil", "merlin_assassinated")


@pytest.mark.parametrize("target", [2, 3, 5])
def test_missing_merlin_wins_for_loyal(target: int) -> None:
    made, ended = after_three().shoot(target)
    assert made[1]["hit"] is False
    assert (ended[1]["winner"], ended[1]["ending"]) == ("loyal", "merlin_survived")


@pytest.mark.parametrize("target", [0, 6, -1, True, 1.0, "1", 4, None])
def test_the_shot_names_another_seat_at_the_table(target: object) -> None:
    game = after_three()
    with pytest.raises(IllegalAction, match=r"seats are 1 to 5|must name") as refusal:
        game.do((4, Assassinate(target)))  # type: ignore[arg-type]
    assert refusal.value.pointer == "/target"


def test_only_the_assassin_shoots() -> None:
    game = after_three()
    for seat in (1, 2, 3, 5):
        with pytest.raises(IllegalAction, match=f"seat {seat} is not asked"):
            game.do((seat, Assassinate(1)))


def test_only_full_and_the_assassin_see_who_is_asked_to_shoot() -> None:
    game = after_three()
    shooting = [hand.seat for hand in game.state.hands if hand.shoots]
    assert shooting == [4]
    assert all(not hasattr(event, "assassin") for event in game.state.public)


@pytest.mark.parametrize(
    "deal", ["percival servant servant assassin morgana", "merlin percival servant minion morgana"]
)
def test_without_merlin_or_without_an_assassin_three_successes_win(deal: str) -> None:
    game = Play(deal)
    assert game.state.table.profile.assassination == "none"
    game.round()
    game.round()
    ended = game.round()[-1]
    assert (ended[1]["winner"], ended[1]["ending"]) == ("loyal", "three_quests_succeeded")


def test_a_record_may_name_another_seat_as_the_shooter() -> None:
    deal = [Role(name) for name in FIVE.split()]
    state = fold(create(make_profile("official"), 1, deal=deal, shooter=5))
    assert (state.shooter, [hand.shoots for hand in state.hands]) == (5, [False] * 4 + [True])


@pytest.mark.parametrize("shooter", [0, 6, 99, -1])
def test_a_shooter_who_is_not_at_the_table_is_refused(shooter: int) -> None:
    with pytest.raises(InvalidProfile) as refusal:
        create(make_profile("official"), 1, shooter=shooter)
    assert refusal.value.pointer == "/shooter"


@pytest.mark.parametrize("shooter", [True, 1.0, "1"])
def test_the_shooter_is_named_by_a_whole_number_since_it_enters_the_log(shooter: object) -> None:
    deal = [Role(name) for name in ["assassin", "merlin", "percival", "servant", "morgana"]]
    with pytest.raises(InvalidProfile) as refusal:
        create(make_profile("official"), 1, deal=deal, shooter=shooter)  # type: ignore[arg-type]
    assert refusal.value.pointer == "/shooter"


# --- one shot after any quest ---


def any_quest(**rules: object) -> Play:
    return Play(assassination="after_any_quest", **rules)


def test_a_shot_may_be_offered_after_every_quest_whatever_its_result() -> None:
    for fails in (0, 1):
        game = any_quest()
        assert names(game.round(fails=fails))[-1] == "assassination_opened"
        assert game.asked == [("assassinate", 4)]


def test_holding_fire_goes_on_and_the_shot_is_offered_again() -> None:
    game = any_quest()
    game.round()
    assert names(game.shoot(None)) == ["assassination_declined", "proposal_opened"]
    game.round()
    assert game.kind == "assassinate"


def test_holding_fire_does_not_tell_who_held_it() -> None:
    game = any_quest()
    game.round()
    assert game.shoot(None)[0] == ("assassination_declined", {})


def test_holding_fire_after_the_third_success_wins_for_loyal() -> None:
    game = any_quest()
    for _ in range(2):
        game.round()
        game.shoot(None)
    game.round()
    ended = game.shoot(None)[-1]
    assert (ended[1]["winner"], ended[1]["ending"]) == ("loyal", "three_quests_succeeded")


def test_the_third_failure_ends_the_game_before_any_shot() -> None:
    game = any_quest()
    for _ in range(2):
        game.round(fails=1)
        game.shoot(None)
    assert names(game.round(fails=1))[-1] == "game_ended"


def test_a_hit_ends_the_game_at_once() -> None:
    game = any_quest()
    game.round()
    assert game.shoot(1)[-1][1]["ending"] == "merlin_assassinated"


def test_an_early_miss_ends_the_game_or_lets_it_go_on() -> None:
    game = any_quest()
    game.round()
    assert game.shoot(2)[-1][1]["ending"] == "merlin_survived"
    game = any_quest(missed_shot="play_on")
    game.round()
    assert names(game.shoot(2)) == ["assassination_made", "proposal_opened"]


def test_there_is_only_one_shot_per_game() -> None:
    game = any_quest(missed_shot="play_on")
    game.round()
    game.shoot(2)
    assert names(game.round())[-1] == "proposal_opened"
    ended = game.round()[-1]
    assert (ended[1]["winner"], ended[1]["ending"]) == ("loyal", "merlin_survived")


def test_a_miss_at_the_third_success_ends_the_game_even_with_play_on() -> None:
    game = any_quest(missed_shot="play_on")
    for _ in range(2):
        game.round()
        game.shoot(None)
    game.round()
    assert game.shoot(2)[-1][1]["ending"] == "merlin_survived"


def test_a_log_that_opens_an_assassination_without_a_shooter_asks_nobody() -> None:
    game = Play(assassination="none")
    state = State()
    apply(state, game.state.log)
    state.table.phase = Phase.ASSASSINATE
    assert [request for request in pending(state) if request.kind is Kind.ASSASSINATE] == []


# --- what the end tells ---


def test_the_end_tells_what_reveal_says() -> None:
    roles = dict(zip("12345", FIVE.split(), strict=True))
    for reveal, told, seed in (("none", None, None), ("roles", roles, None), ("all", roles, "7")):
        ended = after_three(reveal=reveal).shoot(2)[-1][1]
        assert (ended["roles"], ended["seed"]) == (told, seed)


def test_a_loyal_shooter_is_refused_by_seat_and_role() -> None:
    deal = [Role(name) for name in FIVE.split()]
    for seat, role in ((1, "merlin"), (2, "percival"), (3, "servant")):
        with pytest.raises(InvalidProfile, match=f"got seat {seat}, which is {role}"):
            create(make_profile("official"), 1, deal=deal, shooter=seat)
