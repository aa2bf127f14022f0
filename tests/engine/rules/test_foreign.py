"""What only a record may say: cards partly known, beliefs without a confidence, choices off the menu."""

from typing import Any

import pytest

from engine.actions import PlayCard, ProposeTeam, RecordQuest, Speak
from engine.errors import IllegalAction
from engine.events import BeliefsFormed, CardPlayed, IntentionsSelected, QuestResolved, payload, read_event
from engine.playthrough import playthrough
from engine.rules import decide
from engine.state import apply, fold
from engine.terms import FULL, Role
from engine.thoughts import Belief, Choice
from tests.engine.playing import Play


def on_quest(*team: int, **rules: Any) -> Play:
    """Loyal seats 1 to 3, evil 4 and 5; this team is about to play its cards."""
    game = Play(**rules)
    game.propose(*team)
    game.vote(5)
    return game


def quest(game: Play, fails: int | None, succeeded: bool) -> QuestResolved:
    events = decide(game.state, [(game.leader, RecordQuest(fails, succeeded))], foreign=True)
    apply(game.state, events)
    (resolved,) = (event for event in events if isinstance(event, QuestResolved))
    return resolved


def test_a_quest_resolves_although_one_card_is_unknown() -> None:
    game = on_quest(1, 4)
    game.do((1, PlayCard(True)))
    assert quest(game, 0, True) == QuestResolved(1, (1, 4), 0, True)
    assert [event.seat for event in game.state.log if isinstance(event, CardPlayed)] == [1]
    assert fold(game.state.log) == game.state
    assert game.state.answers == 0
    assert game.kind == "propose_team"


def test_an_unknown_card_of_evil_may_be_the_fail() -> None:
    game = on_quest(1, 4)
    game.do((1, PlayCard(True)))
    assert quest(game, 1, False).fails == 1


@pytest.mark.parametrize(
    ("fails", "succeeded", "pointer"),
    [
        (0, True, "/fails"),  # fewer than were played
        (2, False, "/fails"),  # more than evil can play
        (1, True, "/succeeded"),
        (None, True, "/succeeded"),
    ],
)
def test_the_result_must_follow_from_the_cards_that_are_known(
    fails: int | None, succeeded: bool, pointer: str
) -> None:
    game = on_quest(1, 4)
    game.do((4, PlayCard(False)))
    with pytest.raises(IllegalAction) as refused:
        quest(game, fails, succeeded)
    assert refused.value.pointer == pointer


def test_a_quest_of_loyal_cards_alone_cannot_have_failed() -> None:
    game = on_quest(1, 2)
    game.do((1, PlayCard(True)))
    with pytest.raises(IllegalAction):
        quest(game, None, False)


def test_only_the_leader_tells_a_recorded_quest_and_only_on_the_quest() -> None:
    game = on_quest(1, 4)
    with pytest.raises(IllegalAction):
        decide(game.state, [(2, RecordQuest(0, True))], foreign=True)
    quest(game, 0, True)
    with pytest.raises(IllegalAction):
        quest(game, 0, True)


UNSURE = BeliefsFormed(2, (Belief(1, Role.MERLIN, (), None),))
OFF_MENU = IntentionsSelected(2, "first", (Choice("include_loyal_as_leader"),), False)


def talking() -> Play:
    game = Play(profile="interintent")
    game.do((1, ProposeTeam((1, 2), "so")))
    return game


@pytest.mark.parametrize("thought", [UNSURE, OFF_MENU], ids=["confidence", "menu"])
def test_a_record_may_hold_what_a_seat_may_not_say(thought: Any) -> None:
    game = talking()
    with pytest.raises(IllegalAction):
        decide(game.state, [(2, Speak("so", (thought,)))])
    assert thought in decide(game.state, [(2, Speak("so", (thought,)))], foreign=True)


def test_a_record_chooses_out_of_the_catalogue_all_the_same() -> None:
    unknown = IntentionsSelected(2, "first", (Choice("win"),), False)
    with pytest.raises(IllegalAction):
        decide(talking().state, [(2, Speak("so", (unknown,)))], foreign=True)


def test_a_belief_without_a_confidence_is_stored_and_shown() -> None:
    assert read_event("beliefs_formed", payload(UNSURE)) == UNSURE
    game = talking()
    apply(game.state, decide(game.state, [(2, Speak("so", (UNSURE,)))], foreign=True))
    assert "(confidence unknown)" in playthrough(game.state.log, FULL)
