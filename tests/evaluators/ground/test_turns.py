"""Which turns of a log are speaking turns, and what belongs to each."""

from dataclasses import replace
from typing import Any

import pytest

from engine.actions import ProposeTeam, Speak
from engine.errors import IllegalInput
from engine.events import (
    ActionDefaulted,
    BeliefsFormed,
    GameEnded,
    RoundSummarised,
    SelectionPrepared,
    TeamProposed,
    UtteranceMade,
)
from engine.rules import Request, default
from engine.state import State
from evaluators.errors import Unmeasurable
from evaluators.ground.turns import read_game
from tests.engine.games import random_game
from tests.evaluators.talk import belief, by_hand, chose, log_by_hand, scripted, scripted_log


def test_every_seat_has_one_turn_an_attempt_and_the_leader_opens() -> None:
    game = by_hand({})
    first = [turn.request_id for turn in game.turns if turn.round == 1]
    assert first == ["1.1.propose_team.1", "1.1.speak.2", "1.1.speak.3", "1.1.speak.4", "1.1.speak.5"]
    assert next(t.request_id for t in game.turns if t.round == 2) == "2.1.propose_team.2"
    assert len(game.turns) == 15


def test_where_the_talk_comes_before_the_proposal_the_leader_opens_it_with_a_speech() -> None:
    game = by_hand({}, discussion="before_proposal", reconsideration=False)
    opening = [turn.request_id for turn in game.turns if turn.opens]
    assert opening == ["1.1.speak.1", "2.1.speak.2", "3.1.speak.3"]


def test_what_a_leader_says_when_reconsidering_is_no_turn() -> None:
    game = by_hand({})
    assert sum(type(e) is UtteranceMade and e.phase == "reconsider" for e in game.log) == 3
    assert all("keeps it" not in turn.text for turn in game.turns)


def test_a_turn_holds_both_selections_and_the_speech_of_each() -> None:
    game = by_hand({"1.1.speak.2": chose(2, "support_proposal", "defend_self support_proposal")})
    turn = game.turns[1]
    assert turn.first is not None
    assert turn.final is not None
    assert (turn.first.intentions, turn.final.intentions) == (
        {"support_proposal"},
        {"support_proposal", "defend_self"},
    )
    assert turn.first.draft is not None
    assert turn.final.draft is not None
    assert (turn.first.draft.stage, turn.final.draft.stage) == ("formulation", "refinement")
    assert turn.changed
    assert turn.modified


def test_a_list_in_another_order_is_unchanged() -> None:
    game = by_hand({"1.1.speak.2": chose(2, "support_proposal defend_self", "defend_self support_proposal")})
    assert not game.turns[1].changed


def test_without_a_modification_the_first_selection_stands() -> None:
    turn = by_hand({"1.1.speak.2": chose(2, "support_proposal")}).turns[1]
    assert turn.final is not None
    assert turn.final.intentions == {"support_proposal"}
    assert not turn.modified


def test_a_turn_without_thoughts_has_no_selection() -> None:
    turn = by_hand({}).turns[1]
    assert (turn.first, turn.final, turn.beliefs) == (None, None, ())


def test_a_defaulted_turn_says_why_and_keeps_what_was_thought_before() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id != "1.1.speak.3":
            return None
        notes = (*chose(3, "support_proposal"), ActionDefaulted(3, request.id, "model_error"))
        return Speak(default(game.table, request).text, notes)  # type: ignore[union-attr]

    turn = read_game("g", log_by_hand({}, answer)).turns[2]
    assert turn.defaulted == "model_error"
    assert turn.final is not None


def test_the_default_of_another_request_is_not_the_turns() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.id == "1.1.speak.3":
            return Speak("so", (ActionDefaulted(3, "1.1.vote.3", "deadline"),))
        return None

    assert read_game("g", log_by_hand({}, answer)).turns[2].defaulted is None


def test_a_proposal_that_ends_the_talk_is_no_turn_of_it() -> None:
    def answer(game: State, request: Request) -> Any:
        if request.kind == "propose_team":
            return ProposeTeam(tuple(range(1, (request.team_size or 0) + 1)), "my team at last")
        return None

    game = read_game("g", log_by_hand({}, answer, discussion="before_proposal"))
    assert len(game.turns) == 15
    assert {turn.request_id.split(".")[2] for turn in game.turns} == {"speak"}


def test_a_turn_begins_with_the_proposal_that_opens_it_or_with_its_speech() -> None:
    game = by_hand({"1.1.speak.3": chose(3, "support_proposal")})
    for turn in game.turns:
        kind = TeamProposed if ".propose_team." in turn.request_id else UtteranceMade
        assert type(game.log[turn.opening]) is kind
        said = game.log[turn.utterance]
        assert isinstance(said, UtteranceMade)
        assert (said.seat, said.text) == (turn.seat, turn.text)


def test_who_speaks_twice_in_an_attempt_repeats_itself() -> None:
    log = log_by_hand({})
    place = next(at for at, event in enumerate(log) if type(event) is UtteranceMade and event.seat == 3)
    game = read_game("g", [*log[: place + 1], replace(log[place], text="again"), *log[place + 1 :]])
    assert [(turn.seat, turn.round, turn.text) for turn in game.turns if turn.repeated] == [(3, 1, "again")]


def test_what_a_seat_thinks_when_it_votes_belongs_to_no_turn() -> None:
    game = by_hand({"1.1.vote.4": [belief(4, 2, "stay_hidden")]})
    assert sum(type(event) is BeliefsFormed for event in game.log) == 1
    assert [turn.beliefs for turn in game.turns] == [()] * 15


def test_what_was_not_heard_is_the_last_turn_or_the_seats_own_summary() -> None:
    game = by_hand(
        {
            "1.1.propose_team.1": [SelectionPrepared(1, "speech"), *chose(1, "convince_leader")],
            "1.1.speak.2": [SelectionPrepared(2, "speech"), *chose(2, "convince_leader")],
            "1.1.speak.3": [SelectionPrepared(3, "speech"), *chose(3, "convince_leader")],
            "1.1.speak.4": [SelectionPrepared(4, "summary"), *chose(4, "convince_leader")],
            "1.1.speak.5": chose(5, "convince_leader"),
            "2.1.propose_team.2": [SelectionPrepared(2, "summary"), *chose(2, "convince_leader")],
        }
    )
    told = [(turn.without, [type(game.log[place]) for place in turn.unheard]) for turn in game.turns[:6]]
    assert told[0] == ("speech", [])  # nobody had spoken
    # The opener's proposal and its speech, with all up to the turn's own utterance.
    first, second = game.turns[0], game.turns[1]
    assert (second.without, second.unheard) == ("speech", range(first.opening, second.opening))
    assert game.turns[2].unheard == range(second.opening, game.turns[2].opening)
    assert told[3:5] == [("summary", []), (None, [])]
    (place,) = game.turns[5].unheard
    summary = game.log[place]
    assert isinstance(summary, RoundSummarised)
    assert summary.seat == 2


def test_a_game_may_be_cut_to_one_turn_or_to_some_seats() -> None:
    game = by_hand({})
    assert [turn.request_id for turn in game.only("2.1.speak.4").turns] == ["2.1.speak.4"]
    assert {turn.seat for turn in game.of([2, 5]).turns} == {2, 5}
    assert len(game.of([2, 5]).turns) == 6
    assert len(game.turns) == 15


def test_a_log_is_kept_where_it_can_be_and_read_once_where_it_cannot() -> None:
    log = scripted_log(3)
    assert read_game("g", log).log is log
    assert read_game("g", iter(log)).log == list(log)


def test_positions_are_those_of_the_public_stream() -> None:
    log = scripted_log(3)
    shown = [event for event in log if event.seen_by == "public"]
    for turn in scripted(3).turns:
        assert shown[turn.position - 1] is log[turn.utterance]


def test_an_unfinished_game_gives_nothing() -> None:
    log = scripted_log(3)
    with pytest.raises(Unmeasurable, match="finished"):
        read_game("g", log[:-1])
    assert issubclass(Unmeasurable, IllegalInput)


def test_a_seats_own_stream_is_not_enough() -> None:
    shown = [event for event in scripted_log(3) if event.seen_by == "public"]
    assert type(shown[-1]) is GameEnded
    with pytest.raises(Unmeasurable):
        read_game("g", shown)


@pytest.mark.parametrize("number", range(40))
def test_any_game_of_any_rules_is_read(number: int) -> None:
    state = random_game(number)
    game = read_game("g", state.log)
    said = [place for place, event in enumerate(state.log) if type(event) is UtteranceMade]
    assert {turn.utterance for turn in game.turns} <= set(said)
    assert not any(turn.repeated for turn in game.turns)
    assert len({turn.request_id for turn in game.turns}) == len(game.turns)
